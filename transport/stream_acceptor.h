// Accepts calls of one streaming method and gives each a thread.

#ifndef CPFEED_TRANSPORT_STREAM_ACCEPTOR_H_
#define CPFEED_TRANSPORT_STREAM_ACCEPTOR_H_

#include <grpcpp/completion_queue.h>

#include <functional>
#include <list>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "transport/server_call.h"

namespace cpfeed {

// Thread-safe. Used in this order: construct (before the server is built),
// Start, the server's Shutdown, Stop.
class StreamAcceptor {
 public:
  // Asks gRPC for the next call: `call` and `queue` are passed to the generated
  // RequestX method with `tag`.
  using Request = std::function<void(
      ServerCall& call, grpc::ServerCompletionQueue& queue, void* tag)>;
  // Handles one call and returns its status. Runs on a thread of its own.
  using Handler = std::function<absl::Status(ServerCall& call)>;

  // At most `max_calls` at once; more are ended with RESOURCE_EXHAUSTED.
  StreamAcceptor(std::unique_ptr<grpc::ServerCompletionQueue> queue,
                 int max_calls, Request request, Handler handler);
  ~StreamAcceptor();
  StreamAcceptor(const StreamAcceptor&) = delete;
  StreamAcceptor& operator=(const StreamAcceptor&) = delete;

  void Start();

  // Waits until every call has ended.
  void Stop();

  // Calls that are handled now.
  int num_calls() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Running {
    std::thread thread;
    bool done = false;
  };

  void AcceptLoop();
  void RequestNext(ServerCall& call) ABSL_LOCKS_EXCLUDED(request_mu_);
  void Launch(std::unique_ptr<ServerCall> call) ABSL_LOCKS_EXCLUDED(mu_);
  void Handle(ServerCall& call, bool over_limit) const;

  const std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  const int max_calls_;
  const Request request_;
  const Handler handler_;
  std::thread thread_;
  absl::Mutex request_mu_;
  bool stopped_ ABSL_GUARDED_BY(request_mu_) = false;
  mutable absl::Mutex mu_;
  std::list<Running> running_ ABSL_GUARDED_BY(mu_);
};

}  // namespace cpfeed

#endif  // CPFEED_TRANSPORT_STREAM_ACCEPTOR_H_

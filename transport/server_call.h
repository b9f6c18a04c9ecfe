// One bidirectional streaming call on the server, driven by one thread.

#ifndef CPFEED_TRANSPORT_SERVER_CALL_H_
#define CPFEED_TRANSPORT_SERVER_CALL_H_

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/byte_buffer.h>

#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "core/tensor/buffer.h"

namespace cpfeed {

// The thread that handles the call waits for events and starts operations; one
// read is always under way, at most one write is. Unlike a blocking handler it
// can end the call with a status of its own while the client is silent.
//
// A completion queue of its own and not gRPC's callback API: the pollers of the
// latter sleep through the second between two training steps.
class ServerCall {
 public:
  enum class Event {
    kMessage,    // TakeMessage() has the client's next message.
    kReadsDone,  // The client sends no more (or is gone).
    kWritten,    // The write is done; another may start.
    kWakeup,     // Somebody called Notify().
    kGone        // The call is cancelled or broken: end it.
  };

  ServerCall();
  ServerCall(const ServerCall&) = delete;
  ServerCall& operator=(const ServerCall&) = delete;

  // For the acceptor: what gRPC fills in when a client calls.
  grpc::ServerContext& context() { return context_; }
  grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>& stream() {
    return stream_;
  }
  grpc::CompletionQueue& queue() { return queue_; }

  // Starts reading. Call once, when a client is there.
  void Start();

  // Blocks until something happens.
  Event Wait();

  // The message of kMessage; starts the next read. Empty where gRPC could not
  // read it.
  std::optional<Buffer> TakeMessage();

  // Starts a write; must not be called while writing().
  void StartWrite(const Buffer& message);
  bool writing() const { return writing_; }

  // Makes Wait() return kWakeup. From any thread, until Finish.
  void Notify() ABSL_LOCKS_EXCLUDED(alarm_mu_);

  // Ends the call and waits until gRPC is done with it.
  void Finish(const absl::Status& status) ABSL_LOCKS_EXCLUDED(alarm_mu_);

 private:
  void StartRead();

  grpc::CompletionQueue queue_;
  grpc::ServerContext context_;
  grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> stream_;
  grpc::ByteBuffer incoming_;
  grpc::ByteBuffer outgoing_;
  bool writing_ = false;

  absl::Mutex alarm_mu_;
  grpc::Alarm alarm_ ABSL_GUARDED_BY(alarm_mu_);
  bool alarm_set_ ABSL_GUARDED_BY(alarm_mu_) = false;
  bool finished_ ABSL_GUARDED_BY(alarm_mu_) = false;
};

}  // namespace cpfeed

#endif  // CPFEED_TRANSPORT_SERVER_CALL_H_

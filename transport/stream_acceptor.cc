#include "transport/stream_acceptor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"

namespace cpfeed {

StreamAcceptor::StreamAcceptor(
    std::unique_ptr<grpc::ServerCompletionQueue> queue, int max_calls,
    Request request, Handler handler)
    : queue_(std::move(queue)),
      max_calls_(max_calls),
      request_(std::move(request)),
      handler_(std::move(handler)) {}

StreamAcceptor::~StreamAcceptor() { Stop(); }

void StreamAcceptor::Start() {
  thread_ = std::thread([this] { AcceptLoop(); });
}

void StreamAcceptor::Stop() {
  if (!thread_.joinable()) return;
  {
    absl::MutexLock lock(&request_mu_);
    stopped_ = true;
    queue_->Shutdown();
  }
  thread_.join();
  std::list<Running> running;
  {
    absl::MutexLock lock(&mu_);
    // Elements keep their addresses: the threads still mark them.
    running.swap(running_);
  }
  for (Running& call : running) call.thread.join();
}

int StreamAcceptor::num_calls() const {
  absl::MutexLock lock(&mu_);
  return static_cast<int>(
      std::count_if(running_.begin(), running_.end(),
                    [](const Running& call) { return !call.done; }));
}

// gRPC ends the process where a call is asked for on a queue that was shut
// down.
void StreamAcceptor::RequestNext(ServerCall& call) {
  absl::MutexLock lock(&request_mu_);
  if (!stopped_) request_(call, *queue_, &call);
}

void StreamAcceptor::AcceptLoop() {
  auto next = std::make_unique<ServerCall>();
  RequestNext(*next);
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) {
    if (!ok) continue;  // The server shuts down; the queue will end.
    std::unique_ptr<ServerCall> call = std::move(next);
    next = std::make_unique<ServerCall>();
    RequestNext(*next);
    Launch(std::move(call));
  }
}

void StreamAcceptor::Launch(std::unique_ptr<ServerCall> call) {
  std::list<Running> ended;
  const bool over_limit = num_calls() >= max_calls_;
  {
    absl::MutexLock lock(&mu_);
    for (auto it = running_.begin(); it != running_.end();) {
      const auto here = it++;
      if (here->done) ended.splice(ended.end(), running_, here);
    }
    Running& running = running_.emplace_back();
    running.thread = std::thread(
        [this, &running, over_limit, owned = std::move(call)]() mutable {
          Handle(*owned, over_limit);
          owned.reset();
          absl::MutexLock done_lock(&mu_);
          running.done = true;
        });
  }
  for (Running& gone : ended) gone.thread.join();
}

void StreamAcceptor::Handle(ServerCall& call, bool over_limit) const {
  call.Start();
  if (over_limit) {
    call.Finish(
        MakeError(absl::StatusCode::kResourceExhausted, kQuota,
                  absl::StrCat("server has ", max_calls_,
                               " streams of this kind, as many as it takes")));
    return;
  }
  call.Finish(handler_(call));
}

}  // namespace cpfeed

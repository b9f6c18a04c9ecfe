#include "transport/server_call.h"

#include <grpcpp/impl/grpc_library.h>

#include <utility>

#include "core/base/status_macros.h"
#include "transport/grpc_status.h"
#include "transport/raw_message.h"

namespace cpfeed {
namespace {

enum Tag : intptr_t {
  kReadTag = 1,
  kWriteTag,
  kWakeupTag,
  kDoneTag,
  kFinishTag
};

void* AsTag(Tag tag) { return reinterpret_cast<void*>(tag); }

}  // namespace

ServerCall::ServerCall() : stream_(&context_) {
  context_.AsyncNotifyWhenDone(AsTag(kDoneTag));
}

void ServerCall::Start() { StartRead(); }

void ServerCall::StartRead() { stream_.Read(&incoming_, AsTag(kReadTag)); }

ServerCall::Event ServerCall::Wait() {
  void* tag = nullptr;
  bool ok = false;
  CF_CHECK(queue_.Next(&tag, &ok));
  switch (static_cast<Tag>(reinterpret_cast<intptr_t>(tag))) {
    case kReadTag:
      return ok ? Event::kMessage : Event::kReadsDone;
    case kWriteTag:
      writing_ = false;
      return ok ? Event::kWritten : Event::kGone;
    case kWakeupTag: {
      absl::MutexLock lock(&alarm_mu_);
      alarm_set_ = false;
      return Event::kWakeup;
    }
    default:
      return Event::kGone;
  }
}

std::optional<Buffer> ServerCall::TakeMessage() {
  Buffer message;
  const grpc::Status status = FromByteBuffer(incoming_, message);
  incoming_.Clear();
  StartRead();
  if (!status.ok()) return std::nullopt;
  return message;
}

void ServerCall::StartWrite(const Buffer& message) {
  CF_CHECK(!writing_);
  writing_ = true;
  outgoing_ = ToByteBuffer(message);
  stream_.Write(outgoing_, AsTag(kWriteTag));
}

void ServerCall::Notify() {
  absl::MutexLock lock(&alarm_mu_);
  if (alarm_set_ || finished_) return;
  alarm_set_ = true;
  alarm_.Set(&queue_, gpr_now(GPR_CLOCK_MONOTONIC), AsTag(kWakeupTag));
}

void ServerCall::Finish(const absl::Status& status) {
  {
    absl::MutexLock lock(&alarm_mu_);
    finished_ = true;
  }
  void* tag = nullptr;
  bool ok = false;
  // gRPC takes no final status while a write is under way.
  while (writing_ && queue_.Next(&tag, &ok)) {
    if (tag == AsTag(kWriteTag)) writing_ = false;
  }
  stream_.Finish(ToGrpcStatus(status), AsTag(kFinishTag));
  while (queue_.Next(&tag, &ok) && tag != AsTag(kFinishTag)) {
  }
  queue_.Shutdown();
  while (queue_.Next(&tag, &ok)) {
  }
}

}  // namespace cpfeed

// The calls that keep a session alive, and those that watch it.

#include <utility>

#include "absl/time/time.h"
#include "core/base/error.h"
#include "google/protobuf/util/time_util.h"
#include "server/event_log.h"
#include "server/session_events.h"
#include "server/session_service.h"
#include "transport/grpc_status.h"

namespace cpfeed {
namespace {

// Each takes a thread of the pool of unary calls.
constexpr int kMostWatches = 16;

// How soon a watch notices that its client is gone.
constexpr absl::Duration kPollInterval = absl::Milliseconds(500);

}  // namespace

grpc::Status SessionServiceImpl::UpdateSession(
    grpc::ServerContext* context, const v1::UpdateSessionRequest* request,
    v1::UpdateSessionResponse* response) {
  const auto caller = CallerOf(authenticator_, *context);
  if (!caller.ok()) return ToGrpcStatus(caller.status());
  const auto host = registry_.Update(*request, *caller);
  if (!host.ok()) return ToGrpcStatus(host.status());
  EventLog("session_updated")
      .Add("session", (*host)->spec().name)
      .Add("principal", caller->name())
      .AddTrace(*context)
      .Info();
  *response->mutable_session() = (*host)->ToProto();
  return grpc::Status::OK;
}

grpc::Status SessionServiceImpl::RenewSession(
    grpc::ServerContext* context, const v1::RenewSessionRequest* request,
    v1::RenewSessionResponse* response) {
  const auto host = Find(*context, request->name());
  if (!host.ok()) return ToGrpcStatus(host.status());
  const absl::Duration left = (*host)->Renew();
  if (left != absl::InfiniteDuration()) {
    *response->mutable_expires_in() =
        google::protobuf::util::TimeUtil::NanosecondsToDuration(
            absl::ToInt64Nanoseconds(left));
  }
  return grpc::Status::OK;
}

grpc::Status SessionServiceImpl::WatchSession(
    grpc::ServerContext* context, const v1::WatchSessionRequest* request,
    grpc::ServerWriter<v1::WatchSessionResponse>* writer) {
  const auto host = Find(*context, request->name());
  if (!host.ok()) return ToGrpcStatus(host.status());
  const auto lease = watches_.Take("server", kMostWatches);
  if (!lease.ok()) return ToGrpcStatus(lease.status());
  const SessionEvent current = (*host)->CurrentEvent();
  int64_t seen =
      request->after_event() > 0 ? request->after_event() : current.event();
  if (!writer->Write(current)) return grpc::Status::CANCELLED;
  while (!context->IsCancelled()) {
    const SessionEvents::News news =
        (*host)->events().WaitPast(seen, kPollInterval);
    for (const SessionEvent& event : news.events) {
      if (!writer->Write(event)) return grpc::Status::CANCELLED;
      seen = event.event();
    }
    if (!news.end.ok()) return ToGrpcStatus(news.end);
  }
  return grpc::Status::CANCELLED;
}

}  // namespace cpfeed

#include "server/session_service.h"

#include <algorithm>

#include "core/base/status_macros.h"
#include "server/event_log.h"
#include "transport/grpc_status.h"

namespace cpfeed {
namespace {

constexpr int kDefaultPageSize = 50;
constexpr int kMostPageSize = 1000;

}  // namespace

absl::StatusOr<std::shared_ptr<SessionHost>> SessionServiceImpl::Find(
    const grpc::ServerContext& context, const std::string& name) const {
  CF_ASSIGN_OR_RETURN(const Caller caller, CallerOf(authenticator_, context));
  return registry_.Find(name, caller);
}

grpc::Status SessionServiceImpl::CreateSession(
    grpc::ServerContext* context, const v1::CreateSessionRequest* request,
    v1::CreateSessionResponse* response) {
  const auto caller = CallerOf(authenticator_, *context);
  if (!caller.ok()) return ToGrpcStatus(caller.status());
  const auto host = registry_.Create(*request, *caller);
  if (!host.ok()) return ToGrpcStatus(host.status());
  EventLog("session_opened")
      .Add("session", (*host)->spec().name)
      .Add("principal", caller->name())
      .Add("request_id", request->request_id())
      .AddTrace(*context)
      .Info();
  *response->mutable_session() = (*host)->ToProto();
  return grpc::Status::OK;
}

grpc::Status SessionServiceImpl::GetSession(
    grpc::ServerContext* context, const v1::GetSessionRequest* request,
    v1::GetSessionResponse* response) {
  const auto host = Find(*context, request->name());
  if (!host.ok()) return ToGrpcStatus(host.status());
  *response->mutable_session() = (*host)->ToProto();
  return grpc::Status::OK;
}

grpc::Status SessionServiceImpl::ListSessions(
    grpc::ServerContext* context, const v1::ListSessionsRequest* request,
    v1::ListSessionsResponse* response) {
  const auto caller = CallerOf(authenticator_, *context);
  if (!caller.ok()) return ToGrpcStatus(caller.status());
  const int size = request->page_size() <= 0
                       ? kDefaultPageSize
                       : std::min(request->page_size(), kMostPageSize);
  // One more than asked for tells whether there is another page.
  const auto page = registry_.List(request->page_token(), size + 1, *caller);
  for (const auto& host : page) {
    if (response->sessions_size() == size) {
      response->set_next_page_token(response->sessions(size - 1).name());
      break;
    }
    *response->add_sessions() = host->ToProto();
  }
  return grpc::Status::OK;
}

grpc::Status SessionServiceImpl::DeleteSession(
    grpc::ServerContext* context, const v1::DeleteSessionRequest* request,
    v1::DeleteSessionResponse*) {
  const auto caller = CallerOf(authenticator_, *context);
  if (!caller.ok()) return ToGrpcStatus(caller.status());
  const absl::Status status = registry_.Delete(*request, *caller);
  EventLog("session_deleted")
      .Add("session", request->name())
      .Add("principal", caller->name())
      .Add(status)
      .AddTrace(*context)
      .Info();
  return ToGrpcStatus(status);
}

grpc::Status SessionServiceImpl::SeekSession(
    grpc::ServerContext* context, const v1::SeekSessionRequest* request,
    v1::SeekSessionResponse* response) {
  const auto host = Find(*context, request->name());
  if (!host.ok()) return ToGrpcStatus(host.status());
  const absl::Status status = (*host)->Seek(request->cursor());
  EventLog("session_sought")
      .Add("session", (*host)->spec().name)
      .Add("step", request->cursor().step())
      .Add("request_id", request->request_id())
      .Add(status)
      .AddTrace(*context)
      .Info();
  if (!status.ok()) return ToGrpcStatus(status);
  *response->mutable_session() = (*host)->ToProto();
  return grpc::Status::OK;
}

grpc::Status SessionServiceImpl::CommitCursor(
    grpc::ServerContext* context, const v1::CommitCursorRequest* request,
    v1::CommitCursorResponse* response) {
  const auto host = Find(*context, request->name());
  if (!host.ok()) return ToGrpcStatus(host.status());
  const auto committed = (*host)->Commit(request->cursor());
  if (!committed.ok()) return ToGrpcStatus(committed.status());
  response->set_committed_step(*committed);
  return grpc::Status::OK;
}

}  // namespace cpfeed

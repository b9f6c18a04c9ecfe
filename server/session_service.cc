#include "server/session_service.h"

#include <algorithm>

#include "core/base/status_macros.h"
#include "transport/grpc_status.h"

namespace cpfeed {
namespace {

constexpr int kDefaultPageSize = 50;
constexpr int kMostPageSize = 1000;

}  // namespace

grpc::Status SessionServiceImpl::CreateSession(
    grpc::ServerContext*, const v1::CreateSessionRequest* request,
    v1::CreateSessionResponse* response) {
  const auto host = registry_.Create(*request);
  if (!host.ok()) return ToGrpcStatus(host.status());
  *response->mutable_session() = (*host)->ToProto();
  return grpc::Status::OK;
}

grpc::Status SessionServiceImpl::GetSession(
    grpc::ServerContext*, const v1::GetSessionRequest* request,
    v1::GetSessionResponse* response) {
  const auto host = registry_.Find(request->name());
  if (!host.ok()) return ToGrpcStatus(host.status());
  *response->mutable_session() = (*host)->ToProto();
  return grpc::Status::OK;
}

grpc::Status SessionServiceImpl::ListSessions(
    grpc::ServerContext*, const v1::ListSessionsRequest* request,
    v1::ListSessionsResponse* response) {
  const int size = request->page_size() <= 0
                       ? kDefaultPageSize
                       : std::min(request->page_size(), kMostPageSize);
  // One more than asked for tells whether there is another page.
  const auto page = registry_.List(request->page_token(), size + 1);
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
    grpc::ServerContext*, const v1::DeleteSessionRequest* request,
    v1::DeleteSessionResponse*) {
  return ToGrpcStatus(registry_.Delete(*request));
}

grpc::Status SessionServiceImpl::SeekSession(
    grpc::ServerContext*, const v1::SeekSessionRequest* request,
    v1::SeekSessionResponse* response) {
  const auto host = registry_.Find(request->name());
  if (!host.ok()) return ToGrpcStatus(host.status());
  const absl::Status status = (*host)->Seek(request->cursor());
  if (!status.ok()) return ToGrpcStatus(status);
  *response->mutable_session() = (*host)->ToProto();
  return grpc::Status::OK;
}

grpc::Status SessionServiceImpl::CommitCursor(
    grpc::ServerContext*, const v1::CommitCursorRequest* request,
    v1::CommitCursorResponse* response) {
  const auto host = registry_.Find(request->name());
  if (!host.ok()) return ToGrpcStatus(host.status());
  const auto committed = (*host)->Commit(request->cursor());
  if (!committed.ok()) return ToGrpcStatus(committed.status());
  response->set_committed_step(*committed);
  return grpc::Status::OK;
}

}  // namespace cpfeed

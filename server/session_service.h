// SessionService over the registry.

#ifndef CPFEED_SERVER_SESSION_SERVICE_H_
#define CPFEED_SERVER_SESSION_SERVICE_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include "cpfeed/v1/session.grpc.pb.h"
#include "server/session_registry.h"

namespace cpfeed {

class SessionServiceImpl final : public v1::SessionService::Service {
 public:
  explicit SessionServiceImpl(SessionRegistry& registry)
      : registry_(registry) {}

  grpc::Status CreateSession(grpc::ServerContext* context,
                             const v1::CreateSessionRequest* request,
                             v1::CreateSessionResponse* response) override;
  grpc::Status GetSession(grpc::ServerContext* context,
                          const v1::GetSessionRequest* request,
                          v1::GetSessionResponse* response) override;
  grpc::Status ListSessions(grpc::ServerContext* context,
                            const v1::ListSessionsRequest* request,
                            v1::ListSessionsResponse* response) override;
  grpc::Status DeleteSession(grpc::ServerContext* context,
                             const v1::DeleteSessionRequest* request,
                             v1::DeleteSessionResponse* response) override;
  grpc::Status SeekSession(grpc::ServerContext* context,
                           const v1::SeekSessionRequest* request,
                           v1::SeekSessionResponse* response) override;
  grpc::Status CommitCursor(grpc::ServerContext* context,
                            const v1::CommitCursorRequest* request,
                            v1::CommitCursorResponse* response) override;

 private:
  SessionRegistry& registry_;
};

}  // namespace cpfeed

#endif  // CPFEED_SERVER_SESSION_SERVICE_H_

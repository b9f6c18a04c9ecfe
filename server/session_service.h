// SessionService over the registry.

#ifndef CPFEED_SERVER_SESSION_SERVICE_H_
#define CPFEED_SERVER_SESSION_SERVICE_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>
#include <grpcpp/support/sync_stream.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "cpfeed/v1/session.grpc.pb.h"
#include "server/auth/authenticator.h"
#include "server/auth/use_counter.h"
#include "server/session_registry.h"

namespace cpfeed {

class SessionServiceImpl final : public v1::SessionService::Service {
 public:
  // `authenticator` may be null: nobody is asked.
  SessionServiceImpl(SessionRegistry& registry, Authenticator* authenticator)
      : registry_(registry), authenticator_(authenticator) {}

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
  grpc::Status UpdateSession(grpc::ServerContext* context,
                             const v1::UpdateSessionRequest* request,
                             v1::UpdateSessionResponse* response) override;
  grpc::Status RenewSession(grpc::ServerContext* context,
                            const v1::RenewSessionRequest* request,
                            v1::RenewSessionResponse* response) override;
  grpc::Status WatchSession(
      grpc::ServerContext* context, const v1::WatchSessionRequest* request,
      grpc::ServerWriter<v1::WatchSessionResponse>* writer) override;

 private:
  // The session of that name, if the caller may see it.
  absl::StatusOr<std::shared_ptr<SessionHost>> Find(
      const grpc::ServerContext& context, const std::string& name) const;

  SessionRegistry& registry_;
  Authenticator* const authenticator_;
  UseCounter watches_{"watches"};
};

}  // namespace cpfeed

#endif  // CPFEED_SERVER_SESSION_SERVICE_H_

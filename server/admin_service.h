// AdminService: for those who run the server.

#ifndef CPFEED_SERVER_ADMIN_SERVICE_H_
#define CPFEED_SERVER_ADMIN_SERVICE_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <functional>

#include "absl/status/status.h"
#include "cpfeed/v1/admin.grpc.pb.h"
#include "server/auth/authenticator.h"
#include "server/metrics/server_metrics.h"
#include "server/metrics/session_metrics.h"
#include "server/session_registry.h"

namespace cpfeed {

// What the service needs of the server.
struct AdminHooks {
  std::function<void()> drain;
  std::function<absl::Status()> undrain;
  std::function<ServerGauges()> gauges;
  v1::GetServerInfoResponse info;  // But for what changes.
};

class AdminServiceImpl final : public v1::AdminService::Service {
 public:
  // `authenticator` may be null: nobody is asked.
  AdminServiceImpl(const SessionRegistry& registry, ServerMetrics& metrics,
                   Authenticator* authenticator, AdminHooks hooks);

  grpc::Status GetServerInfo(grpc::ServerContext* context,
                             const v1::GetServerInfoRequest* request,
                             v1::GetServerInfoResponse* response) override;
  grpc::Status GetStatistics(grpc::ServerContext* context,
                             const v1::GetStatisticsRequest* request,
                             v1::GetStatisticsResponse* response) override;
  grpc::Status Drain(grpc::ServerContext* context,
                     const v1::DrainRequest* request,
                     v1::DrainResponse* response) override;
  grpc::Status Undrain(grpc::ServerContext* context,
                       const v1::UndrainRequest* request,
                       v1::UndrainResponse* response) override;
  grpc::Status SetLogLevel(grpc::ServerContext* context,
                           const v1::SetLogLevelRequest* request,
                           v1::SetLogLevelResponse* response) override;
  grpc::Status ExportState(grpc::ServerContext* context,
                           const v1::ExportStateRequest* request,
                           v1::ExportStateResponse* response) override;

 private:
  const SessionRegistry& registry_;
  ServerMetrics& metrics_;
  Authenticator* const authenticator_;
  const AdminHooks hooks_;
};

}  // namespace cpfeed

#endif  // CPFEED_SERVER_ADMIN_SERVICE_H_

// grpc.health.v1.Health, our own so that reflection can describe it.

#ifndef CPFEED_SERVER_HEALTH_SERVICE_H_
#define CPFEED_SERVER_HEALTH_SERVICE_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>
#include <grpcpp/support/sync_stream.h>

#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace cpfeed {

// States of a server; probes tell them apart by name:
//
//            ""            readiness     liveness  startup
//   starting NOT_SERVING   NOT_SERVING   SERVING   NOT_SERVING
//   ready    SERVING       SERVING       SERVING   SERVING
//   draining NOT_SERVING   NOT_SERVING   SERVING   SERVING
//   failing  NOT_SERVING   NOT_SERVING   NOT_SERVING   SERVING
enum class ServingState { kStarting, kReady, kDraining, kFailing };

// Thread-safe.
class HealthServiceImpl final : public grpc::health::v1::Health::Service {
 public:
  void SetState(ServingState state) ABSL_LOCKS_EXCLUDED(mu_);

  // Ends all watches.
  void Stop() ABSL_LOCKS_EXCLUDED(mu_);

  grpc::Status Check(grpc::ServerContext* context,
                     const grpc::health::v1::HealthCheckRequest* request,
                     grpc::health::v1::HealthCheckResponse* response) override;
  grpc::Status Watch(grpc::ServerContext* context,
                     const grpc::health::v1::HealthCheckRequest* request,
                     grpc::ServerWriter<grpc::health::v1::HealthCheckResponse>*
                         writer) override;

 private:
  using Status = grpc::health::v1::HealthCheckResponse::ServingStatus;
  std::optional<Status> Look(const std::string& service) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Status LookOrUnknown(const std::string& service) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  absl::Mutex mu_;
  absl::CondVar changed_;
  ServingState state_ ABSL_GUARDED_BY(mu_) = ServingState::kStarting;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace cpfeed

#endif  // CPFEED_SERVER_HEALTH_SERVICE_H_

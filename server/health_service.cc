#include "server/health_service.h"

#include "absl/time/time.h"

namespace cpfeed {
namespace {

using grpc::health::v1::HealthCheckResponse;

// How soon a watch notices that its client is gone.
constexpr absl::Duration kPollInterval = absl::Seconds(1);

constexpr const char* kServices[] = {
    "cpfeed.v1.AdminService", "cpfeed.v1.IngestService",
    "cpfeed.v1.PlanService", "cpfeed.v1.SessionService",
    "cpfeed.v1.ShardService"};

}  // namespace

void HealthServiceImpl::SetState(ServingState state) {
  absl::MutexLock lock(&mu_);
  state_ = state;
  changed_.SignalAll();
}

void HealthServiceImpl::Stop() {
  absl::MutexLock lock(&mu_);
  stopped_ = true;
  changed_.SignalAll();
}

std::optional<HealthServiceImpl::Status> HealthServiceImpl::Look(
    const std::string& service) const {
  const auto serving = [](bool is) {
    return is ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
  };
  if (service == "liveness") return serving(state_ != ServingState::kFailing);
  if (service == "startup") return serving(state_ != ServingState::kStarting);
  bool known = service.empty() || service == "readiness";
  for (const char* name : kServices) known |= service == name;
  if (!known) return std::nullopt;
  return serving(state_ == ServingState::kReady);
}

HealthServiceImpl::Status HealthServiceImpl::LookOrUnknown(
    const std::string& service) const {
  return Look(service).value_or(HealthCheckResponse::SERVICE_UNKNOWN);
}

grpc::Status HealthServiceImpl::Check(
    grpc::ServerContext*, const grpc::health::v1::HealthCheckRequest* request,
    HealthCheckResponse* response) {
  absl::MutexLock lock(&mu_);
  const std::optional<Status> status = Look(request->service());
  if (!status) {
    return grpc::Status(grpc::StatusCode::NOT_FOUND, "unknown service");
  }
  response->set_status(*status);
  return grpc::Status::OK;
}

grpc::Status HealthServiceImpl::Watch(
    grpc::ServerContext* context,
    const grpc::health::v1::HealthCheckRequest* request,
    grpc::ServerWriter<HealthCheckResponse>* writer) {
  std::optional<Status> told;
  while (true) {
    Status now;
    {
      absl::MutexLock lock(&mu_);
      while (!stopped_ && LookOrUnknown(request->service()) == told) {
        changed_.WaitWithTimeout(&mu_, kPollInterval);
        if (context->IsCancelled()) return grpc::Status::CANCELLED;
      }
      if (stopped_) {
        return grpc::Status(grpc::StatusCode::UNAVAILABLE, "server stops");
      }
      now = LookOrUnknown(request->service());
    }
    HealthCheckResponse response;
    response.set_status(now);
    if (!writer->Write(response)) return grpc::Status::CANCELLED;
    told = now;
  }
}

}  // namespace cpfeed

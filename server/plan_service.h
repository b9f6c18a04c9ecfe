// PlanService: dry runs, and what became of steps.

#ifndef CPFEED_SERVER_PLAN_SERVICE_H_
#define CPFEED_SERVER_PLAN_SERVICE_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include "cpfeed/v1/plan.grpc.pb.h"
#include "server/auth/authenticator.h"
#include "server/auth/use_counter.h"
#include "server/session_registry.h"

namespace cpfeed {

class PlanServiceImpl final : public v1::PlanService::Service {
 public:
  // `authenticator` may be null: nobody is asked.
  PlanServiceImpl(const SessionRegistry& registry, Authenticator* authenticator)
      : registry_(registry), authenticator_(authenticator) {}

  grpc::Status PlanBatch(grpc::ServerContext* context,
                         const v1::PlanBatchRequest* request,
                         v1::PlanBatchResponse* response) override;

  grpc::Status ExplainStep(grpc::ServerContext* context,
                           const v1::ExplainStepRequest* request,
                           v1::ExplainStepResponse* response) override;

 private:
  const SessionRegistry& registry_;
  Authenticator* const authenticator_;
  UseCounter plans_{"plans under way"};
};

}  // namespace cpfeed

#endif  // CPFEED_SERVER_PLAN_SERVICE_H_

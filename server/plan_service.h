// PlanService: dry runs.

#ifndef CPFEED_SERVER_PLAN_SERVICE_H_
#define CPFEED_SERVER_PLAN_SERVICE_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include "cpfeed/v1/plan.grpc.pb.h"
#include "server/auth/authenticator.h"
#include "server/auth/use_counter.h"

namespace cpfeed {

class PlanServiceImpl final : public v1::PlanService::Service {
 public:
  // `authenticator` may be null: nobody is asked.
  explicit PlanServiceImpl(Authenticator* authenticator)
      : authenticator_(authenticator) {}

  grpc::Status PlanBatch(grpc::ServerContext* context,
                         const v1::PlanBatchRequest* request,
                         v1::PlanBatchResponse* response) override;

 private:
  Authenticator* const authenticator_;
  UseCounter plans_{"plans under way"};
};

}  // namespace cpfeed

#endif  // CPFEED_SERVER_PLAN_SERVICE_H_

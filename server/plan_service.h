// PlanService: dry runs.

#ifndef CPFEED_SERVER_PLAN_SERVICE_H_
#define CPFEED_SERVER_PLAN_SERVICE_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include "cpfeed/v1/plan.grpc.pb.h"

namespace cpfeed {

class PlanServiceImpl final : public v1::PlanService::Service {
 public:
  grpc::Status PlanBatch(grpc::ServerContext* context,
                         const v1::PlanBatchRequest* request,
                         v1::PlanBatchResponse* response) override;
};

}  // namespace cpfeed

#endif  // CPFEED_SERVER_PLAN_SERVICE_H_

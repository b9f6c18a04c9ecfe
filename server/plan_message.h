// A plan as message: who holds what, how good it is, and what is possible.

#ifndef CPFEED_SERVER_PLAN_MESSAGE_H_
#define CPFEED_SERVER_PLAN_MESSAGE_H_

#include "core/plan/shard_plan.h"
#include "cpfeed/v1/plan.pb.h"

namespace cpfeed {

// With every rank's figures and, where asked for, its segments.
v1::LayoutPlan PlanToProto(const ShardPlan& plan, bool include_segments);

}  // namespace cpfeed

#endif  // CPFEED_SERVER_PLAN_MESSAGE_H_

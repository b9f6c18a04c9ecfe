// Checks a plan without the code that made it.

#ifndef CPFEED_CORE_PLAN_PLAN_VERIFIER_H_
#define CPFEED_CORE_PLAN_PLAN_VERIFIER_H_

#include "absl/status/status.h"
#include "core/plan/shard_plan.h"

namespace cpfeed {

// Whether the plan keeps its contract: every position that the layout keeps is
// held exactly once, by the rank that the layout's formula names where it has
// one; each rank's segments are inside their slots, in ascending order, maximal
// and not empty; counts of rows are right, and as equal over the ranks as the
// layout promises; the digest is that of the plan. Time is linear in segments,
// sequences and total_tokens / 64.
//
// Errors:
//   INTERNAL  It does not. The message names the rank, the sequence (of the
//             chunk) and the position in its slot, or both digests:
//             "rank 1: sequence 3: position 17 is held twice; must be held
//             once".
absl::Status VerifyPlan(const ShardPlan& plan);

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_PLAN_VERIFIER_H_

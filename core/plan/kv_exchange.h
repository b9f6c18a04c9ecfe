// How many key-value rows ranks must hand each other under a plan.

#ifndef CPFEED_CORE_PLAN_KV_EXCHANGE_H_
#define CPFEED_CORE_PLAN_KV_EXCHANGE_H_

#include <cstdint>
#include <vector>

#include "core/plan/shard_plan.h"

namespace cpfeed {

// In one layer's attention under the causal mask, where each rank receives
// exactly the rows that its own real queries see. Shape [cp_size] both; both
// sum to the same.
//
// Example: a sequence of 8 on two ranks, HEAD_TAIL_PER_SEQUENCE
//   rank 0 holds 0 1 6 7 and sees all 8 rows: receives 4, sends 2
//   rank 1 holds 2 3 4 5 and sees rows 0..5:  receives 2, sends 4

// Real rows of other ranks that a real query of the rank sees. In a sequence of
// which the rank holds n real rows, the last at position e - 1, these are e -
// n. Linear in segments.
std::vector<int64_t> CountKvRowsReceived(const ShardPlan& plan);

// Real rows of the rank, once for each rank that receives them. Time is
// O(num_sequences + segments * log(cp_size)).
std::vector<int64_t> CountKvRowsSent(const ShardPlan& plan);

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_KV_EXCHANGE_H_

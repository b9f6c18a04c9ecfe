// Rows of all ranks and positions of the stream, both ways.

#ifndef CPFEED_CORE_PLAN_ROW_PERMUTATION_H_
#define CPFEED_CORE_PLAN_ROW_PERMUTATION_H_

#include <cstdint>
#include <vector>

#include "core/plan/shard_plan.h"

namespace cpfeed {

// Rows are counted over all ranks: rank 0's first, then rank 1's. -1 stands for
// nothing: pad rows have no position, padding that a layout drops has no row.
//
// Example: one sequence of 4 on two ranks, HEAD_TAIL_PER_SEQUENCE: rank 0 holds
// positions 0 and 3, so position_of_row is 0 3 1 2 and row_of_position 0 2 3 1.
struct RowPermutation {
  std::vector<int32_t> position_of_row;  // [rows of all ranks]
  std::vector<int32_t> row_of_position;  // [tokens of all slots]
};

// For callers that gather the rows of all ranks, such as logits, and want them
// in the order of the stream, or the reverse. planner_bench measures it
// beside the plan.
//
// Linear in rows and positions. What `order` has allocated is used again: fresh
// memory costs more than the numbers.
void ComputeRowPermutation(const ShardPlan& plan, RowPermutation& order);

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_ROW_PERMUTATION_H_

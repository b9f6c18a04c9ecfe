// A rank's rows with little traffic.

#ifndef CPFEED_CORE_PLAN_BALANCED_GREEDY_RANK_H_
#define CPFEED_CORE_PLAN_BALANCED_GREEDY_RANK_H_

#include <cstdint>

#include "core/plan/balanced/interval_pool.h"

namespace cpfeed {

// Takes rank.rows rows that cost about rank.cost, the top of a long sequence
// and whole short ones:
//   - The heaviest interval whole where it fits, else rows off its top. Its
//     head comes with them for nothing, as the rank receives it anyway.
//   - The rest of the rows are the lightest there are. The lighter, the more of
//     the long sequence the rank can hold, and the fewer ranks need it.
//   - What cost is then missing: the heaviest interval that fits whole, or rows
//     off the top of the next heavier one.
// Under TILE what is cut off is whole tiles where possible.
//
// `mean` is the cost of a mean rank. Either rank.rows is 0 afterwards, and
// rank.cost what is missing, or it found none; then the pool is to be restored.
void FillGreedily(IntervalPool& pool, int64_t mean, RankPart& rank);

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_BALANCED_GREEDY_RANK_H_

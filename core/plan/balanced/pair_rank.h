// A rank's rows from the two intervals nearest to the density it needs.

#ifndef CPFEED_CORE_PLAN_BALANCED_PAIR_RANK_H_
#define CPFEED_CORE_PLAN_BALANCED_PAIR_RANK_H_

#include <cstdint>

#include "core/plan/balanced/interval_pool.h"

namespace cpfeed {

// Takes rank.rows rows, of which the pool has as many, that cost about
// rank.cost, out of few intervals:
//   - The lightest interval that can do it alone gives rows off its head and
//   off
//     its top.
//   - Else rows are taken of the interval next below and of the one next above
//     the density that is needed, in the one proportion that meets rows and
//     cost; whole, and again, where one of them is too short.
// `mean` is the cost of a mean rank. rank.cost afterwards is what is missing.
void FillFromPair(IntervalPool& pool, int64_t mean, RankPart& rank);

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_BALANCED_PAIR_RANK_H_

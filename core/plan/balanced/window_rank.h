// A rank's rows by a proof: a window over all open rows.

#ifndef CPFEED_CORE_PLAN_BALANCED_WINDOW_RANK_H_
#define CPFEED_CORE_PLAN_BALANCED_WINDOW_RANK_H_

#include "core/plan/balanced/interval_pool.h"

namespace cpfeed {

// Lays all open rows in a circle, interval behind interval in the pool's order,
// and takes rank.rows of them that lie side by side: whole intervals, and parts
// of at most two. The pool has at least that many.
//
// Why some window has about the right cost: each row of the circle begins one
// window and is in rank.rows of them, so on average a window costs the pool's
// mean for so many rows. One costs at most that and one at least that. From a
// window to the next a row leaves and a row enters, which changes the cost by
// at most the heaviest row; so somewhere two neighbours lie on either side of
// the mean, at most one row apart. The one that is nearer to rank.cost is
// taken.
//
// If rank.cost is the mean of all rows minus what the ranks before took too
// much, that error never grows beyond half of the heaviest row: it shrinks
// towards the mean, and of two numbers on either side of it at most one row
// apart the one nearer to 0 is taken. So under AREA each rank is within one row
// of its share. (Tiles are not additive: there it is a good guess.)
//
// The search begins with the top of the heaviest interval and goes round to the
// lightest, so it takes the tail of a long sequence and fills up with short
// ones where that is possible. Linear in open intervals.
void FillByWindow(IntervalPool& pool, RankPart& rank);

// What it would take would cost so much.
int64_t CostByWindow(const IntervalPool& pool, const RankPart& rank);

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_BALANCED_WINDOW_RANK_H_

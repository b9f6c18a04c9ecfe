// Evens out tiles by exchanging rows between ranks.

#ifndef CPFEED_CORE_PLAN_BALANCED_TILE_EXCHANGE_H_
#define CPFEED_CORE_PLAN_BALANCED_TILE_EXCHANGE_H_

#include <vector>

#include "core/plan/balanced/interval_pool.h"
#include "core/plan/balanced/row_cost.h"

namespace cpfeed {

// Until no rank costs more than 2% above the mean of unsharded costs, or none
// can be helped: exchanges equally many rows, whole tiles where possible, at
// ends of slices between the dearest rank and one of the cheapest. Counts of
// rows stay. Slices are sorted and maximal before and after.
//
// `mean` is the cost of all sequences, uncut, divided by the ranks.
void ExchangeTiles(const RowCost& cost, int64_t mean,
                   std::vector<std::vector<Slice>>& ranks);

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_BALANCED_TILE_EXCHANGE_H_

// Evens out costs by exchanging rows at the ends of slices.

#ifndef CPFEED_CORE_PLAN_BALANCED_SLICE_EXCHANGE_H_
#define CPFEED_CORE_PLAN_BALANCED_SLICE_EXCHANGE_H_

#include <cstdint>
#include <vector>

#include "core/plan/balanced/interval_pool.h"
#include "core/plan/balanced/row_cost.h"

namespace cpfeed {

struct ExchangeGoal {
  int64_t mean = 0;  // Cost of a mean rank.
  int64_t most = 0;  // What no rank should cost more than.
  int64_t unit = 1;  // Rows are exchanged in multiples where possible.
};

// Until no rank costs more than goal.most, or none can be helped, or a fixed
// amount of work is done: exchanges equally many rows between the dearest rank
// and one of the cheapest, where that adds little traffic. Counts of rows stay.
// Slices are sorted and maximal before and after.
void ExchangeSlices(const RowCost& cost, const ExchangeGoal& goal,
                    std::vector<std::vector<Slice>>& ranks);

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_BALANCED_SLICE_EXCHANGE_H_

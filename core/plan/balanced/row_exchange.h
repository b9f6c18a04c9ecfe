// The last resort that makes the bound on area hold for every input.

#ifndef CPFEED_CORE_PLAN_BALANCED_ROW_EXCHANGE_H_
#define CPFEED_CORE_PLAN_BALANCED_ROW_EXCHANGE_H_

#include <cstdint>
#include <vector>

#include "core/plan/balanced/interval_pool.h"
#include "core/plan/balanced/row_cost.h"

namespace cpfeed {

// Exchanges single rows until no rank costs more than the mean plus the
// heaviest row. Returns how many were exchanged, mostly 0. Slices are not empty
// before and after; they are to be made canonical again.
//
// `cost` is additive (AREA) and its rows do not get lighter inside a sequence;
// counts of rows of any two ranks differ by at most 1.
//
// It ends: while the dearest rank is above that, it is more than one row dearer
// than the cheapest, which has at most one row less. So it has a row heavier
// than one of the other's (else its cost would be at most the other's plus a
// row), and exchanging the two brings them closer together. Costs are integers,
// and the sum of their squares falls.
int64_t ExchangeRows(const RowCost& cost,
                     std::vector<std::vector<Slice>>& ranks);

// Sorts slices by sequence and row, drops empty ones and joins those that
// touch.
void Canonicalize(std::vector<Slice>& slices);

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_BALANCED_ROW_EXCHANGE_H_

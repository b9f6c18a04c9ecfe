// The balanced planner: equal tokens, equal cost, little traffic.

#ifndef CPFEED_CORE_PLAN_BALANCED_BALANCE_H_
#define CPFEED_CORE_PLAN_BALANCED_BALANCE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/plan/balanced/interval_pool.h"
#include "core/plan/balanced/row_cost.h"

namespace cpfeed {

// Shares the sequences' rows out: rank r gets exactly rank_rows[r] of them,
// which sum to those of `real` and differ by at most 1. Slices are sorted by
// sequence and row, and maximal.
//
// Under AREA no rank costs more than the mean plus the heaviest row, whatever
// the lengths; mostly all are within 0.5%.
std::vector<std::vector<Slice>> Balance(absl::Span<const int64_t> real,
                                        absl::Span<const int64_t> rank_rows,
                                        const RowCost& cost);

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_BALANCED_BALANCE_H_

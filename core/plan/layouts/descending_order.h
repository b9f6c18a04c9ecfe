// Which of some costs is the highest, the second highest, and so on.

#ifndef CPFEED_CORE_PLAN_LAYOUTS_DESCENDING_ORDER_H_
#define CPFEED_CORE_PLAN_LAYOUTS_DESCENDING_ORDER_H_

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "absl/types/span.h"

namespace cpfeed {

// The indices of `costs`, highest cost first; ties keep their order.
//
// Example: {1, 3, 2, 3}: {1, 3, 2, 0}
inline std::vector<int32_t> DescendingOrder(absl::Span<const int64_t> costs) {
  std::vector<int32_t> order(costs.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return costs[a] > costs[b]; });
  return order;
}

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_LAYOUTS_DESCENDING_ORDER_H_

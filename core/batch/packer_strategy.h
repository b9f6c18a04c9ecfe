// Which row a slot goes to: bin packing on lengths alone.

#ifndef CPFEED_CORE_BATCH_PACKER_STRATEGY_H_
#define CPFEED_CORE_BATCH_PACKER_STRATEGY_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace cpfeed {

enum class PackStrategy : int8_t {
  // In order, each slot into the first row that has room.
  kFirstFit,
  // The widest slot first (of equal ones the earlier), each into the fullest
  // row that has room (of equal ones the earlier). Needs at most 11/9 of the
  // best packing's rows, plus one.
  kBestFitDecreasing,
  // For context-parallel training, where a step lasts as long as its dearest
  // row: rows as by kBestFitDecreasing, but those that leave together are
  // sorted
  // by their causal area, so that the rows of a batch are alike.
  kBalanced,
};

// "first_fit", "best_fit_decreasing", "balanced".
absl::string_view PackStrategyName(PackStrategy strategy);

// The reverse, in either case.
//
// Errors:
//   INVALID_ARGUMENT  `name` is no strategy; the message lists them.
absl::StatusOr<PackStrategy> ParsePackStrategy(absl::string_view name);

// The rows, in the order in which they were opened; each lists the indices of
// its slots, ascending. Every slot is in exactly one row, and no row's slots
// sum above `row_width`. All slots are in [0, row_width]. O(n log n).
//
// Example: slots = {3, 4, 2, 5}, row_width = 8
//   first fit            {0, 1} (3 + 4), {2, 3} (2 + 5)
//   best fit decreasing  {0, 3} (5 + 3), {1, 2} (4 + 2)
std::vector<std::vector<int64_t>> AssignToRows(absl::Span<const int64_t> slots,
                                               int64_t row_width,
                                               PackStrategy strategy);

}  // namespace cpfeed

#endif  // CPFEED_CORE_BATCH_PACKER_STRATEGY_H_

// The rules that lengths must keep before anything is planned on them.

#ifndef CPFEED_CORE_PLAN_CHECK_LENGTHS_H_
#define CPFEED_CORE_PLAN_CHECK_LENGTHS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/batch/packed_lengths.h"
#include "core/plan/layout_spec.h"

namespace cpfeed {

// Checks the rules of PackedLengths; returns the sum of the slots.
//
// Errors:
//   INVALID_ARGUMENT  Counts differ, a length is negative, a real length is
//                     above its slot, or row_splits do not cut the sequences
//                     (reason LENGTHS_INCONSISTENT); slots sum to 2^31 or more
//                     (reason BATCH_TOO_LARGE).
absl::StatusOr<int64_t> CheckLengths(const PackedLengths& lengths);

// Checks that the layout's rule of divisibility holds (PadRuleOf in layout.h).
// `lengths` have passed CheckLengths, `spec` and `cp_size` CheckLayoutSpec.
//
// Errors:
//   INVALID_ARGUMENT  It does not (reason NOT_DIVISIBLE). The message names
//                     the first few places, such as "row 0: sequence 2: 6,
//                     sequence 3: 10"; sequences are counted from their row's
//                     first.
absl::Status CheckDivisible(const PackedLengths& lengths,
                            const LayoutSpec& spec, int64_t cp_size);

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_CHECK_LENGTHS_H_

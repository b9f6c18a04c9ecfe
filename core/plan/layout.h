// What layouts are called and what they ask of a batch.

#ifndef CPFEED_CORE_PLAN_LAYOUT_H_
#define CPFEED_CORE_PLAN_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/batch/packed_batch.h"
#include "core/plan/layout_spec.h"

namespace cpfeed {

// No group is larger. Bounds what a request can make a planner allocate.
inline constexpr int64_t kMaxCpSize = 65536;

// Keeps sums of costs over 2^31 tokens in int64.
inline constexpr int64_t kMaxLinearCost = int64_t{1} << 30;

// The name as in documents and flags: "HEAD_TAIL_PER_SEQUENCE".
absl::string_view LayoutName(Layout layout);

// The reverse, in either case ("head_tail_per_sequence" too); "AUTO" is one.
//
// Errors:
//   INVALID_ARGUMENT  `name` is no layout; the message lists them.
absl::StatusOr<Layout> ParseLayout(absl::string_view name);

// Every layout but kUnspecified and kAuto, in the order of their numbers.
std::vector<Layout> AllLayouts();

// `spec` with kUnspecified and kAuto replaced by the layout that they mean.
LayoutSpec ResolveLayout(LayoutSpec spec, bool has_lengths);

// The objective, with kUnspecified replaced by what it means on so many ranks.
Objective ResolveObjective(Objective objective, int64_t cp_size);

// Whether the parameters of the layout, the mask, the costs and the size of the
// group are in range.
//
// Errors:
//   INVALID_ARGUMENT  They are not (reason BAD_OPTION); the message names the
//                     parameter, its value and its range.
absl::Status CheckLayoutSpec(const LayoutSpec& spec, int64_t cp_size);

// What auto_pad has to make divisible for this (resolved) layout. At cp_size 1
// every layout is the identity and nothing needs padding. `spec` and `cp_size`
// pass CheckLayoutSpec.
PadRule PadRuleOf(const LayoutSpec& spec, int64_t cp_size);

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_LAYOUT_H_

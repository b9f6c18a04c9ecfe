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

// The name as in documents and flags: "HEAD_TAIL_PER_SEQUENCE".
absl::string_view LayoutName(Layout layout);

// The reverse, in either case ("head_tail_per_sequence" too).
//
// Errors:
//   INVALID_ARGUMENT  `name` is no layout; the message lists them.
absl::StatusOr<Layout> ParseLayout(absl::string_view name);

// Every layout but kUnspecified, in the order of their numbers.
std::vector<Layout> AllLayouts();

// `spec` with kUnspecified replaced by the default layout.
LayoutSpec ResolveLayout(LayoutSpec spec, bool has_lengths);

// Whether the parameters of the layout and the size of the group are in range.
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

// Flags that say what a plan is made for.

#ifndef CPFEED_CLIENT_CLI_PLAN_FLAGS_H_
#define CPFEED_CLIENT_CLI_PLAN_FLAGS_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/plan/layout_spec.h"
#include "core/plan/visible_keys.h"

namespace cpfeed {

// "auto", "area" or "tile".
//
// Errors:
//   INVALID_ARGUMENT  Another name (reason BAD_OPTION).
absl::StatusOr<Objective> ParseObjective(absl::string_view name);

// The reverse, in upper case; "AUTO" for kUnspecified.
absl::string_view ObjectiveName(Objective objective);

// "causal", "full", or "window" with `window_left` keys before a query's own.
//
// Errors:
//   INVALID_ARGUMENT  Another name, a window without its size or a size without
//                     a window, or a negative size (reason BAD_OPTION).
absl::StatusOr<VisibleKeys> ParseMask(absl::string_view name,
                                      std::optional<int64_t> window_left);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_CLI_PLAN_FLAGS_H_

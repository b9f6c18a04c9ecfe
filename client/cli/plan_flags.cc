#include "client/cli/plan_flags.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/base/error.h"

namespace cpfeed {

absl::StatusOr<Objective> ParseObjective(absl::string_view name) {
  for (const Objective objective :
       {Objective::kUnspecified, Objective::kArea, Objective::kTile}) {
    if (absl::AsciiStrToUpper(name) == ObjectiveName(objective)) {
      return objective;
    }
  }
  return InvalidArgument(
      kBadOption,
      absl::StrCat("objective is \"", name, "\"; must be auto, area or tile"));
}

absl::string_view ObjectiveName(Objective objective) {
  switch (objective) {
    case Objective::kUnspecified:
      return "AUTO";
    case Objective::kArea:
      return "AREA";
    case Objective::kTile:
      return "TILE";
  }
  return "UNKNOWN";
}

absl::StatusOr<VisibleKeys> ParseMask(absl::string_view name,
                                      std::optional<int64_t> window_left) {
  const bool is_window = name == "window";
  if (!is_window && name != "causal" && name != "full") {
    return InvalidArgument(
        kBadOption,
        absl::StrCat("mask is \"", name, "\"; must be causal, full or window"));
  }
  if (is_window != window_left.has_value()) {
    return InvalidArgument(
        kBadOption,
        absl::StrCat("window_left is ", is_window ? "missing" : "given",
                     " and mask is ", name,
                     "; must be given with mask window alone"));
  }
  if (!is_window) {
    return name == "full" ? VisibleKeys::Full() : VisibleKeys::Causal();
  }
  if (*window_left < 0) {
    return InvalidArgument(
        kBadOption,
        absl::StrCat("window_left is ", *window_left, "; must be at least 0"));
  }
  return VisibleKeys::Window(*window_left);
}

}  // namespace cpfeed

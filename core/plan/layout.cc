#include "core/plan/layout.h"

#include <limits>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/error.h"
#include "core/plan/layouts/layout_registry.h"
#include "core/plan/layouts/layout_rule.h"

namespace cpfeed {
namespace {

absl::Status CheckRange(absl::string_view name, int64_t value, int64_t least,
                        int64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return InvalidArgument(
      kBadOption, absl::StrCat(name, " is ", value, "; must be in [", least,
                               ", ", most, "]"));
}

// Stands for a layout that depends on the batch.
bool IsChoice(Layout layout) {
  return layout == Layout::kUnspecified || layout == Layout::kAuto;
}

absl::Status CheckCosts(const LayoutSpec& spec) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  absl::Status status =
      CheckRange("objective", static_cast<int64_t>(spec.objective), 0,
                 static_cast<int64_t>(Objective::kTile));
  status.Update(CheckRange("mask's left", spec.mask.left, -1, kMost));
  status.Update(CheckRange("mask's right", spec.mask.right, -1, kMost));
  status.Update(CheckRange("linear_cost", spec.linear_cost, 0, kMaxLinearCost));
  return status;
}

}  // namespace

absl::string_view LayoutName(Layout layout) {
  if (layout == Layout::kUnspecified) return "UNSPECIFIED";
  if (layout == Layout::kAuto) return "AUTO";
  return RuleOf(layout).name;
}

absl::StatusOr<Layout> ParseLayout(absl::string_view name) {
  const std::string upper = absl::AsciiStrToUpper(name);
  if (upper == LayoutName(Layout::kAuto)) return Layout::kAuto;
  for (const LayoutRule* rule : LayoutRules()) {
    if (upper == rule->name) return rule->layout;
  }
  const auto append_name = [](std::string* out, const LayoutRule* rule) {
    absl::StrAppend(out, rule->name);
  };
  return InvalidArgument(
      kBadOption,
      absl::StrCat("layout is \"", name, "\"; must be one of ",
                   absl::StrJoin(LayoutRules(), ", ", append_name), ", AUTO"));
}

std::vector<Layout> AllLayouts() {
  std::vector<Layout> layouts;
  for (const LayoutRule* rule : LayoutRules()) layouts.push_back(rule->layout);
  return layouts;
}

LayoutSpec ResolveLayout(LayoutSpec spec, bool has_lengths) {
  if (spec.layout == Layout::kAuto && has_lengths && spec.mask.is_causal()) {
    spec.layout = Layout::kBalanced;
  }
  if (IsChoice(spec.layout)) {
    spec.layout =
        has_lengths ? Layout::kHeadTailPerSequence : Layout::kHeadTailPerRow;
  }
  return spec;
}

Objective ResolveObjective(Objective objective, int64_t cp_size) {
  if (objective != Objective::kUnspecified) return objective;
  return cp_size >= kTileObjectiveFrom ? Objective::kTile : Objective::kArea;
}

absl::Status CheckLayoutSpec(const LayoutSpec& spec, int64_t cp_size) {
  absl::Status status = CheckRange("cp_size", cp_size, 1, kMaxCpSize);
  status.Update(CheckCosts(spec));
  if (IsChoice(spec.layout)) return status;
  const LayoutRule* rule = FindRule(spec.layout);
  if (rule == nullptr) {
    return InvalidArgument(kBadOption,
                           absl::StrCat("layout is number ", spec.layout,
                                        "; must be one that is known"));
  }
  for (const LayoutParameter& parameter : rule->parameters) {
    status.Update(CheckRange(parameter.name, parameter.value(spec),
                             parameter.least, parameter.most));
  }
  return status;
}

PadRule PadRuleOf(const LayoutSpec& spec, int64_t cp_size) {
  if (cp_size <= 1 || IsChoice(spec.layout)) return {};
  return RuleOf(spec.layout).needs(spec, cp_size);
}

}  // namespace cpfeed

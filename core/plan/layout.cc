#include "core/plan/layout.h"

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

}  // namespace

absl::string_view LayoutName(Layout layout) {
  if (layout == Layout::kUnspecified) return "UNSPECIFIED";
  return RuleOf(layout).name;
}

absl::StatusOr<Layout> ParseLayout(absl::string_view name) {
  const std::string upper = absl::AsciiStrToUpper(name);
  for (const LayoutRule* rule : LayoutRules()) {
    if (upper == rule->name) return rule->layout;
  }
  const auto append_name = [](std::string* out, const LayoutRule* rule) {
    absl::StrAppend(out, rule->name);
  };
  return InvalidArgument(
      kBadOption,
      absl::StrCat("layout is \"", name, "\"; must be one of ",
                   absl::StrJoin(LayoutRules(), ", ", append_name)));
}

std::vector<Layout> AllLayouts() {
  std::vector<Layout> layouts;
  for (const LayoutRule* rule : LayoutRules()) layouts.push_back(rule->layout);
  return layouts;
}

LayoutSpec ResolveLayout(LayoutSpec spec, bool has_lengths) {
  if (spec.layout == Layout::kUnspecified) {
    spec.layout =
        has_lengths ? Layout::kHeadTailPerSequence : Layout::kHeadTailPerRow;
  }
  return spec;
}

absl::Status CheckLayoutSpec(const LayoutSpec& spec, int64_t cp_size) {
  absl::Status status = CheckRange("cp_size", cp_size, 1, kMaxCpSize);
  if (spec.layout == Layout::kUnspecified) return status;
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
  if (cp_size <= 1 || spec.layout == Layout::kUnspecified) return {};
  return RuleOf(spec.layout).needs(spec, cp_size);
}

}  // namespace cpfeed

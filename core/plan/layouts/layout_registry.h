// All layouts that there are.

#ifndef CPFEED_CORE_PLAN_LAYOUTS_LAYOUT_REGISTRY_H_
#define CPFEED_CORE_PLAN_LAYOUTS_LAYOUT_REGISTRY_H_

#include "absl/types/span.h"
#include "core/plan/layout_spec.h"
#include "core/plan/layouts/layout_rule.h"

namespace cpfeed {

// In the order of their numbers.
absl::Span<const LayoutRule* const> LayoutRules();

// Null where `layout` is none of them.
const LayoutRule* FindRule(Layout layout);

// The rule of a layout that is one of them.
const LayoutRule& RuleOf(Layout layout);

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_LAYOUTS_LAYOUT_REGISTRY_H_

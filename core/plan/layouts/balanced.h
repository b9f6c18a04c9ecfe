// BALANCED: real tokens only, equal tokens and equal causal area on every rank
// whatever the lengths.

#ifndef CPFEED_CORE_PLAN_LAYOUTS_BALANCED_H_
#define CPFEED_CORE_PLAN_LAYOUTS_BALANCED_H_

#include "core/plan/layouts/layout_rule.h"

namespace cpfeed {

extern const LayoutRule kBalancedRule;

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_LAYOUTS_BALANCED_H_

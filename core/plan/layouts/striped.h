// STRIPED: the stream in stripes of stripe_width tokens, dealt to the ranks in
// turn.

#ifndef CPFEED_CORE_PLAN_LAYOUTS_STRIPED_H_
#define CPFEED_CORE_PLAN_LAYOUTS_STRIPED_H_

#include "core/plan/layouts/layout_rule.h"

namespace cpfeed {

extern const LayoutRule kStripedRule;

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_LAYOUTS_STRIPED_H_

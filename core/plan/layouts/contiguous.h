// CONTIGUOUS: rank r holds positions [rT / cp, (r + 1)T / cp), rounded down.

#ifndef CPFEED_CORE_PLAN_LAYOUTS_CONTIGUOUS_H_
#define CPFEED_CORE_PLAN_LAYOUTS_CONTIGUOUS_H_

#include "core/plan/layouts/layout_rule.h"

namespace cpfeed {

extern const LayoutRule kContiguousRule;

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_LAYOUTS_CONTIGUOUS_H_

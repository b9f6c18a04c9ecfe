// HEAD_TAIL_PER_ROW: each row in 2 * cp_size equal chunks, of which rank r
// holds chunks r and 2 * cp_size - 1 - r, whatever sequences they belong to
// (PyTorch's head-tail load balancer).

#ifndef CPFEED_CORE_PLAN_LAYOUTS_HEAD_TAIL_PER_ROW_H_
#define CPFEED_CORE_PLAN_LAYOUTS_HEAD_TAIL_PER_ROW_H_

#include "core/plan/layouts/layout_rule.h"

namespace cpfeed {

extern const LayoutRule kHeadTailPerRowRule;

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_LAYOUTS_HEAD_TAIL_PER_ROW_H_

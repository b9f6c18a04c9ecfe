// HEAD_TAIL_PER_SEQUENCE: each slot in 2 * cp_size equal chunks, of which rank
// r holds chunks r and 2 * cp_size - 1 - r (TransformerEngine's dual chunk
// swap, also zigzag). Under a causal mask all ranks have the same work.

#ifndef CPFEED_CORE_PLAN_LAYOUTS_HEAD_TAIL_PER_SEQUENCE_H_
#define CPFEED_CORE_PLAN_LAYOUTS_HEAD_TAIL_PER_SEQUENCE_H_

#include "core/plan/layouts/layout_rule.h"

namespace cpfeed {

extern const LayoutRule kHeadTailPerSequenceRule;

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_LAYOUTS_HEAD_TAIL_PER_SEQUENCE_H_

#include "core/plan/layouts/layout_registry.h"

#include "core/base/status_macros.h"
#include "core/plan/layouts/balanced.h"
#include "core/plan/layouts/chunk_greedy.h"
#include "core/plan/layouts/contiguous.h"
#include "core/plan/layouts/head_tail_per_row.h"
#include "core/plan/layouts/head_tail_per_sequence.h"
#include "core/plan/layouts/ptrr.h"
#include "core/plan/layouts/striped.h"

namespace cpfeed {
namespace {

constexpr const LayoutRule* kRules[] = {
    &kContiguousRule, &kHeadTailPerRowRule, &kHeadTailPerSequenceRule,
    &kStripedRule,    &kChunkGreedyRule,    &kPtrrRule,
    &kBalancedRule,
};

}  // namespace

absl::Span<const LayoutRule* const> LayoutRules() { return kRules; }

const LayoutRule* FindRule(Layout layout) {
  for (const LayoutRule* rule : kRules) {
    if (rule->layout == layout) return rule;
  }
  return nullptr;
}

const LayoutRule& RuleOf(Layout layout) {
  const LayoutRule* rule = FindRule(layout);
  CF_CHECK(rule != nullptr);
  return *rule;
}

}  // namespace cpfeed

// Context-parallel attention that LibTorch can differentiate.

#ifndef CPFEED_CORE_ATTENTION_ATTENTION_FUNCTION_H_
#define CPFEED_CORE_ATTENTION_ATTENTION_FUNCTION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "core/attention/kv_exchange.h"
#include "core/comm/communicator.h"
#include "core/plan/shard_plan.h"

namespace cpfeed {

// How the ranks of a group do attention. Shared by the calls of all layers, and
// kept alive by their backward passes.
struct AttentionGroup {
  std::shared_ptr<const KvExchange> exchange;
  std::shared_ptr<const ShardPlan> plan;
  std::shared_ptr<Communicator> communicator;
};

// ContextParallelAttention; `out` has a backward pass
// (ContextParallelAttentionBackward; it throws a StatusException where that
// fails) if q, k or v ask for gradients, `lse` has none. All ranks of the group
// run their backward passes, and in the same order: their exchanges meet. A
// second derivative is not there.
//
// Errors: those of ContextParallelAttention.
absl::StatusOr<AttentionOutput> DifferentiableAttention(
    const AttentionInputs& inputs, const AttentionGroup& group);

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_ATTENTION_FUNCTION_H_

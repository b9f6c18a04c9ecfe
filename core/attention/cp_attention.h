// Context-parallel attention: what one device would give, over a group of ranks
// that hold a packed stream together.

#ifndef CPFEED_CORE_ATTENTION_CP_ATTENTION_H_
#define CPFEED_CORE_ATTENTION_CP_ATTENTION_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/attention/kv_exchange.h"
#include "core/comm/communicator.h"
#include "core/plan/shard_plan.h"

namespace cpfeed {

// Checks one rank's inputs against the plan, before anything is sent.
//
// Errors:
//   INVALID_ARGUMENT  The plan is for another number of ranks than the group
//                     has; shapes, dtypes or head counts that do not fit
//                     together or to the plan; a mask side below -1; a scale
//                     that is not finite.
//   UNIMPLEMENTED     A dtype or device without a kernel.
absl::Status ValidateAttention(const AttentionInputs& inputs,
                               const ShardPlan& plan,
                               const Communicator& group);

// Attention of this rank's queries. A query at position p of a sequence sees
// the key at position j of the same sequence if both are real tokens (padding
// is never seen) and `inputs.mask` lets it. Query head h reads kv head
// h / (num_heads / num_kv_heads).
//
// Rows of padding, and rows that see no key, have out 0 and lse -inf. Partial
// results merge in float32 (float64 for float64) in a fixed order: two runs
// give the same bits.
//
// All ranks of the group call it with their parts. Plans must be equal (see
// core/comm/agreement.h). Where a rank returns an error of its own, its
// peers run into the group's timeout unless they have the same.
//
// Example: 2 ranks, HEAD_TAIL_PER_SEQUENCE, one sequence of 4. Rank 0 passes
// q, k and v of positions 0 and 3 and gets their outputs over all 4 keys.
//
// Errors:
//   those of ValidateAttention, KvExchange::CheckSupport and of the group
//   INTERNAL  A kernel failed; the message has its words.
absl::StatusOr<AttentionOutput> ContextParallelAttention(
    const KvExchange& exchange, const AttentionInputs& inputs,
    const ShardPlan& plan, Communicator& group);

// The gradients of this rank's q, k and v, in their dtype, where `output` is
// what ContextParallelAttention returned for the same arguments and `dout`
// [T, num_heads, value_dim], of q's dtype, is the gradient of its `out`. All
// ranks of the group call it. Keys and values travel again; their gradients
// travel home, and add up, in float32 (float64 for float64) in a fixed order.
//
// Rows of padding have gradients of exactly 0, whatever dout is there.
//
// Errors: as above, and
//   INVALID_ARGUMENT  out, lse or dout are not of the shape and dtype that
//                     belong to the inputs.
absl::StatusOr<AttentionGrads> ContextParallelAttentionBackward(
    const KvExchange& exchange, const AttentionInputs& inputs,
    const AttentionOutput& output, const at::Tensor& dout,
    const ShardPlan& plan, Communicator& group);

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_CP_ATTENTION_H_

// Keys and values travel round the ring of ranks, one block a step.

#ifndef CPFEED_CORE_ATTENTION_RING_EXCHANGE_H_
#define CPFEED_CORE_ATTENTION_RING_EXCHANGE_H_

#include "core/attention/kv_exchange.h"

namespace cpfeed {

// RingForward and RingBackward over all ranks in their order: blocks merge in
// the order r, r - 1, ...
//
// For head-tail and contiguous layouts and causal and full masks. A window
// would make most ranks receive blocks that they cannot see.
class RingExchange final : public KvExchange {
 public:
  absl::string_view name() const override { return "ring"; }
  absl::Status CheckSupport(const ShardPlan& plan, const AttentionMask& mask,
                            const AttentionHeads& heads) const override;
  absl::StatusOr<AttentionOutput> Forward(const AttentionInputs& inputs,
                                          const ShardPlan& plan,
                                          Communicator& group) const override;
  absl::StatusOr<AttentionGrads> Backward(const AttentionInputs& inputs,
                                          const AttentionOutput& output,
                                          const at::Tensor& dout,
                                          const ShardPlan& plan,
                                          Communicator& group) const override;
};

// Whether blocks of whole shards make sense for this layout and mask.
//
// Errors:
//   UNIMPLEMENTED  They do not (reason NOT_SUPPORTED); the message starts with
//                  "exchange `name` cannot do".
absl::Status CheckRingSupport(absl::string_view name, const ShardPlan& plan,
                              const AttentionMask& mask);

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_RING_EXCHANGE_H_

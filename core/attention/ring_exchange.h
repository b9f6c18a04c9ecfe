// Keys and values travel round the ring of ranks, one block a step.

#ifndef CPFEED_CORE_ATTENTION_RING_EXCHANGE_H_
#define CPFEED_CORE_ATTENTION_RING_EXCHANGE_H_

#include "core/attention/kv_exchange.h"

namespace cpfeed {

// At step i rank r has the keys and values of rank r - i, computes with them
// and meanwhile passes them on to rank r + 1. Two receive buffers: the memory
// does not grow with the number of ranks. Blocks merge in the order r, r - 1,
// ...; a rank receives (cp_size - 1) blocks, just once each.
//
// For head-tail and contiguous layouts and causal and full masks. A window
// would make most ranks receive blocks that they cannot see.
class RingExchange final : public KvExchange {
 public:
  absl::string_view name() const override { return "ring"; }
  absl::Status CheckSupport(const ShardPlan& plan,
                            const AttentionMask& mask) const override;
  absl::StatusOr<AttentionOutput> Forward(const AttentionInputs& inputs,
                                          const ShardPlan& plan,
                                          Communicator& group) const override;
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_RING_EXCHANGE_H_

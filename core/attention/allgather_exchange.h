// Every rank gathers all keys and values.

#ifndef CPFEED_CORE_ATTENTION_ALLGATHER_EXCHANGE_H_
#define CPFEED_CORE_ATTENTION_ALLGATHER_EXCHANGE_H_

#include "core/attention/kv_exchange.h"

namespace cpfeed {

// The gathered rows are brought into stream order, where each sequence is one
// piece; then the rank's queries attend to them like in one device. Any layout,
// any mask; the memory holds all keys and values. Traffic as the ring's, but
// nothing overlaps. The gradients of all keys and values go back by a
// reduce-scatter that adds in rank order.
class AllgatherExchange final : public KvExchange {
 public:
  absl::string_view name() const override { return "allgather"; }
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

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_ALLGATHER_EXCHANGE_H_

// Neighbouring ranks trade rows for heads; far ones pass keys and values round
// rings.

#ifndef CPFEED_CORE_ATTENTION_HIERARCHICAL_EXCHANGE_H_
#define CPFEED_CORE_ATTENTION_HIERARCHICAL_EXCHANGE_H_

#include "core/attention/kv_exchange.h"

namespace cpfeed {

// HeadSplitForward with inner groups of `inner_size` consecutive ranks, such as
// those of one machine. Where that is all ranks it does what alltoall does,
// with 1 what ring does; layouts and masks are those of the ring.
class HierarchicalExchange final : public KvExchange {
 public:
  // `inner_size` is at least 1.
  explicit HierarchicalExchange(int inner_size) : inner_size_(inner_size) {}

  absl::string_view name() const override { return "hierarchical"; }
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

 private:
  const int inner_size_;
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_HIERARCHICAL_EXCHANGE_H_

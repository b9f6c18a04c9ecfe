// Ranks trade rows for heads: each attends with all rows of its heads.

#ifndef CPFEED_CORE_ATTENTION_ALLTOALL_EXCHANGE_H_
#define CPFEED_CORE_ATTENTION_ALLTOALL_EXCHANGE_H_

#include "core/attention/kv_exchange.h"

namespace cpfeed {

// HeadSplitForward with all ranks in one inner group, known as Ulysses. Any
// layout, any mask: rows are in stream order before they are masked. Ranks
// share the heads; a kv head may be shared by several ranks and then travels to
// each.
class AlltoallExchange final : public KvExchange {
 public:
  absl::string_view name() const override { return "alltoall"; }
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

#endif  // CPFEED_CORE_ATTENTION_ALLTOALL_EXCHANGE_H_

#include "core/attention/alltoall_exchange.h"

#include "core/attention/head_split_attention.h"

namespace cpfeed {

absl::Status AlltoallExchange::CheckSupport(const ShardPlan& plan,
                                            const AttentionMask&,
                                            const AttentionHeads& heads) const {
  return CheckHeadShares(name(), heads, "cp_size", plan.cp_size);
}

absl::StatusOr<AttentionOutput> AlltoallExchange::Forward(
    const AttentionInputs& inputs, const ShardPlan& plan,
    Communicator& group) const {
  return HeadSplitForward(inputs, group.size(), plan, group);
}

absl::StatusOr<AttentionGrads> AlltoallExchange::Backward(
    const AttentionInputs& inputs, const AttentionOutput& output,
    const at::Tensor& dout, const ShardPlan& plan, Communicator& group) const {
  return HeadSplitBackward(inputs, output, dout, group.size(), plan, group);
}

}  // namespace cpfeed

#include "core/attention/hierarchical_exchange.h"

#include "absl/strings/str_cat.h"
#include "core/attention/head_split_attention.h"
#include "core/attention/ring_exchange.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {

absl::Status HierarchicalExchange::CheckSupport(
    const ShardPlan& plan, const AttentionMask& mask,
    const AttentionHeads& heads) const {
  if (plan.cp_size % inner_size_ != 0) {
    return InvalidArgument(
        kNotDivisible,
        absl::StrCat("exchange hierarchical has inner_size ", inner_size_,
                     "; must divide cp_size ", plan.cp_size));
  }
  CF_RETURN_IF_ERROR(CheckRingSupport(name(), plan, mask));
  return CheckHeadShares(name(), heads, "inner_size", inner_size_);
}

absl::StatusOr<AttentionOutput> HierarchicalExchange::Forward(
    const AttentionInputs& inputs, const ShardPlan& plan,
    Communicator& group) const {
  const int inner_size = group.size() == 1 ? 1 : inner_size_;
  return HeadSplitForward(inputs, inner_size, plan, group);
}

absl::StatusOr<AttentionGrads> HierarchicalExchange::Backward(
    const AttentionInputs& inputs, const AttentionOutput& output,
    const at::Tensor& dout, const ShardPlan& plan, Communicator& group) const {
  const int inner_size = group.size() == 1 ? 1 : inner_size_;
  return HeadSplitBackward(inputs, output, dout, inner_size, plan, group);
}

}  // namespace cpfeed

#include "core/attention/ring_exchange.h"

#include "absl/strings/str_cat.h"
#include "core/attention/ring_pass.h"
#include "core/attention/row_runs.h"
#include "core/base/error.h"
#include "core/plan/layout.h"
#include "core/plan/layout_spec.h"

namespace cpfeed {
namespace {

Ring RingOfAll(const ShardPlan& plan, int place) {
  Ring ring{.place = place};
  for (int rank = 0; rank < plan.cp_size; ++rank) {
    ring.members.push_back(
        {rank, {plan.ranks[rank].num_tokens, RankRuns(plan, rank)}});
  }
  return ring;
}

}  // namespace

absl::Status CheckRingSupport(absl::string_view name, const ShardPlan& plan,
                              const AttentionMask& mask) {
  const auto unsupported = [&](absl::string_view what) {
    return MakeError(absl::StatusCode::kUnimplemented, kNotSupported,
                     absl::StrCat("exchange ", name, " cannot do ", what,
                                  "; allgather, alltoall and planned can"));
  };
  if (mask.is_window()) {
    return unsupported(absl::StrCat("the mask ", MaskName(mask)));
  }
  switch (plan.spec.layout) {
    case Layout::kContiguous:
    case Layout::kHeadTailPerRow:
    case Layout::kHeadTailPerSequence:
      return absl::OkStatus();
    default:
      return unsupported(
          absl::StrCat("the layout ", LayoutName(plan.spec.layout)));
  }
}

absl::Status RingExchange::CheckSupport(const ShardPlan& plan,
                                        const AttentionMask& mask,
                                        const AttentionHeads&) const {
  return CheckRingSupport(name(), plan, mask);
}

absl::StatusOr<AttentionOutput> RingExchange::Forward(
    const AttentionInputs& inputs, const ShardPlan& plan,
    Communicator& group) const {
  return RingForward(inputs, RingOfAll(plan, group.rank()), group);
}

absl::StatusOr<AttentionGrads> RingExchange::Backward(
    const AttentionInputs& inputs, const AttentionOutput& output,
    const at::Tensor& dout, const ShardPlan& plan, Communicator& group) const {
  return RingBackward(inputs, output, dout, RingOfAll(plan, group.rank()),
                      group);
}

}  // namespace cpfeed

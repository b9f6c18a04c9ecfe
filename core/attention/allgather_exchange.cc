#include "core/attention/allgather_exchange.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/index_select.h>

#include <vector>

#include "core/attention/block_attention.h"
#include "core/attention/row_runs.h"
#include "core/attention/tensor_bytes.h"
#include "core/attention/tile_plan.h"
#include "core/base/status_macros.h"
#include "core/comm/collectives.h"

namespace cpfeed {
namespace {

// The rows of all ranks, behind each other in rank order.
absl::StatusOr<at::Tensor> GatherRows(const at::Tensor& own,
                                      const ShardPlan& plan,
                                      Communicator& group) {
  const int64_t row_bytes = own.size(1) * own.size(2) * own.element_size();
  std::vector<int64_t> sizes;
  int64_t rows = 0;
  for (const RankPlan& rank : plan.ranks) {
    sizes.push_back(rank.num_tokens * row_bytes);
    rows += rank.num_tokens;
  }
  const at::Tensor all =
      at::empty({rows, own.size(1), own.size(2)}, own.options());
  CF_RETURN_IF_ERROR(
      AllGather(group, BytesOf(own), sizes, MutableBytesOf(all)));
  return all;
}

}  // namespace

absl::Status AllgatherExchange::CheckSupport(const ShardPlan&,
                                             const AttentionMask&) const {
  return absl::OkStatus();
}

absl::StatusOr<AttentionOutput> AllgatherExchange::Forward(
    const AttentionInputs& inputs, const ShardPlan& plan,
    Communicator& group) const {
  CF_ASSIGN_OR_RETURN(const at::Tensor k, GatherRows(inputs.k, plan, group));
  CF_ASSIGN_OR_RETURN(const at::Tensor v, GatherRows(inputs.v, plan, group));
  std::vector<int64_t> order = StreamOrder(plan);
  const at::Tensor index = at::from_blob(
      order.data(), {static_cast<int64_t>(order.size())}, at::kLong);
  BlockAttention attention(inputs.q, inputs.v.size(2), inputs.scale);
  attention.Add(PlanTiles(RankRuns(plan, group.rank()),
                          StreamRuns(plan.lengths), inputs.mask),
                at::index_select(k, 0, index), at::index_select(v, 0, index));
  return AttentionOutput{attention.Output(), attention.lse()};
}

}  // namespace cpfeed

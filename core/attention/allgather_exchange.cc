#include "core/attention/allgather_exchange.h"

#include <ATen/ops/empty.h>

#include <cstdint>
#include <vector>

#include "core/attention/block_attention.h"
#include "core/attention/block_attention_grad.h"
#include "core/attention/gathered_attention.h"
#include "core/attention/row_runs.h"
#include "core/attention/tensor_bytes.h"
#include "core/base/status_macros.h"
#include "core/comm/collectives.h"

namespace cpfeed {
namespace {

std::vector<RowBuffer> ShardsOf(const ShardPlan& plan) {
  std::vector<RowBuffer> shards;
  for (int rank = 0; rank < plan.cp_size; ++rank) {
    shards.push_back({plan.ranks[rank].num_tokens, RankRuns(plan, rank)});
  }
  return shards;
}

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

absl::StatusOr<GatheredKv> GatherKv(const AttentionInputs& inputs,
                                    const ShardPlan& plan,
                                    Communicator& group) {
  GatheredKv kv;
  CF_ASSIGN_OR_RETURN(kv.k, GatherRows(inputs.k, plan, group));
  CF_ASSIGN_OR_RETURN(kv.v, GatherRows(inputs.v, plan, group));
  return kv;
}

// The reverse: the sum over ranks, in rank order, of what `all` has for this
// rank's rows.
absl::StatusOr<at::Tensor> SumHome(const at::Tensor& all, const ShardPlan& plan,
                                   Communicator& group) {
  const int64_t row_bytes = all.size(1) * all.size(2) * all.element_size();
  const int64_t own_rows = plan.ranks[group.rank()].num_tokens;
  std::vector<int64_t> sizes;
  for (const RankPlan& rank : plan.ranks) {
    sizes.push_back(rank.num_tokens * row_bytes);
  }
  const at::Tensor parts = at::empty(
      {group.size(), own_rows, all.size(1), all.size(2)}, all.options());
  CF_RETURN_IF_ERROR(
      AllToAll(group, BytesOf(all), sizes, MutableBytesOf(parts),
               std::vector<int64_t>(group.size(), own_rows * row_bytes)));
  at::Tensor sum = parts.select(0, 0);
  for (int rank = 1; rank < group.size(); ++rank) {
    sum.add_(parts.select(0, rank));
  }
  return sum;
}

}  // namespace

absl::Status AllgatherExchange::CheckSupport(const ShardPlan&,
                                             const AttentionMask&,
                                             const AttentionHeads&) const {
  return absl::OkStatus();
}

absl::StatusOr<AttentionOutput> AllgatherExchange::Forward(
    const AttentionInputs& inputs, const ShardPlan& plan,
    Communicator& group) const {
  CF_ASSIGN_OR_RETURN(const GatheredKv kv, GatherKv(inputs, plan, group));
  BlockAttention attention(inputs.q, inputs.v.size(2), inputs.scale);
  AddGathered(RankRuns(plan, group.rank()), ShardsOf(plan), kv, inputs.mask,
              attention);
  return AttentionOutput{attention.Output(), attention.lse()};
}

absl::StatusOr<AttentionGrads> AllgatherExchange::Backward(
    const AttentionInputs& inputs, const AttentionOutput& output,
    const at::Tensor& dout, const ShardPlan& plan, Communicator& group) const {
  CF_ASSIGN_OR_RETURN(const GatheredKv kv, GatherKv(inputs, plan, group));
  BlockAttentionGrad attention(inputs.q, output.out, output.lse, dout,
                               inputs.scale);
  const KvGrad all = AddGatheredGrad(
      RankRuns(plan, group.rank()), ShardsOf(plan), kv, inputs.mask, attention);
  AttentionGrads grads{.dq = attention.dq()};
  CF_ASSIGN_OR_RETURN(grads.dk, SumHome(all.dk, plan, group));
  CF_ASSIGN_OR_RETURN(grads.dv, SumHome(all.dv, plan, group));
  return grads;
}

}  // namespace cpfeed

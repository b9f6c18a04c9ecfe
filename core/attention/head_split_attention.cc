#include "core/attention/head_split_attention.h"

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "core/attention/head_exchange.h"
#include "core/attention/ring_pass.h"
#include "core/attention/row_runs.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

HeadExchange InnerExchange(int inner_size, const ShardPlan& plan,
                           Communicator& group) {
  const int first = group.rank() / inner_size * inner_size;
  return HeadExchange(plan, first, inner_size, group);
}

// The ring of the ranks at this rank's place of the inner groups.
Ring OuterRing(int inner_size, const ShardPlan& plan, int rank) {
  Ring ring{.place = rank / inner_size};
  for (int first = 0; first < plan.cp_size; first += inner_size) {
    std::vector<RowBuffer> shards;
    for (int member = first; member < first + inner_size; ++member) {
      shards.push_back({plan.ranks[member].num_tokens, RankRuns(plan, member)});
    }
    StreamOrder order = OrderRows(shards);
    ring.members.push_back(
        {first + rank % inner_size,
         {static_cast<int64_t>(order.source.size()), std::move(order.runs)}});
  }
  return ring;
}

AttentionInputs WithTensors(const AttentionInputs& inputs,
                            const std::vector<at::Tensor>& qkv) {
  return {.q = qkv[0],
          .k = qkv[1],
          .v = qkv[2],
          .mask = inputs.mask,
          .scale = inputs.scale};
}

}  // namespace

absl::StatusOr<AttentionOutput> HeadSplitForward(const AttentionInputs& inputs,
                                                 int inner_size,
                                                 const ShardPlan& plan,
                                                 Communicator& group) {
  HeadExchange exchange = InnerExchange(inner_size, plan, group);
  CF_ASSIGN_OR_RETURN(const std::vector<at::Tensor> qkv,
                      exchange.ToHeads({inputs.q, inputs.k, inputs.v}));
  CF_ASSIGN_OR_RETURN(
      const AttentionOutput share,
      RingForward(WithTensors(inputs, qkv),
                  OuterRing(inner_size, plan, group.rank()), group));
  const int64_t heads = inputs.q.size(1);
  CF_ASSIGN_OR_RETURN(const std::vector<at::Tensor> out,
                      exchange.ToRows({{share.out, heads}}));
  const int64_t received_before = group.bytes().received;
  CF_ASSIGN_OR_RETURN(
      const std::vector<at::Tensor> lse,
      exchange.ToRows({{share.lse.unsqueeze(-1), heads, -kInfinity}}));
  return AttentionOutput{out[0], lse[0].squeeze(-1),
                         group.bytes().received - received_before};
}

absl::StatusOr<AttentionGrads> HeadSplitBackward(const AttentionInputs& inputs,
                                                 const AttentionOutput& output,
                                                 const at::Tensor& dout,
                                                 int inner_size,
                                                 const ShardPlan& plan,
                                                 Communicator& group) {
  HeadExchange exchange = InnerExchange(inner_size, plan, group);
  CF_ASSIGN_OR_RETURN(
      const std::vector<at::Tensor> share,
      exchange.ToHeads({inputs.q, inputs.k, inputs.v, output.out,
                        output.lse.unsqueeze(-1), dout}));
  CF_ASSIGN_OR_RETURN(
      const AttentionGrads grads,
      RingBackward(WithTensors(inputs, share), {share[3], share[4].squeeze(-1)},
                   share[5], OuterRing(inner_size, plan, group.rank()), group));
  CF_ASSIGN_OR_RETURN(const std::vector<at::Tensor> home,
                      exchange.ToRows({{grads.dq, inputs.q.size(1)},
                                       {grads.dk, inputs.k.size(1)},
                                       {grads.dv, inputs.v.size(1)}}));
  return AttentionGrads{home[0], home[1], home[2]};
}

}  // namespace cpfeed

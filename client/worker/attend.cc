#include "client/worker/attend.h"

#include <memory>
#include <utility>
#include <vector>

#include "client/worker/one_device.h"
#include "client/worker/rank_threads.h"
#include "client/worker/stream_rows.h"
#include "core/attention/cp_attention.h"
#include "core/base/status_macros.h"
#include "core/comm/agreement.h"
#include "core/comm/communicator.h"
#include "core/plan/layout.h"
#include "core/plan/shard_plan.h"

namespace cpfeed {
namespace {

// The numbers as [T, heads, columns]; valid as long as they.
at::Tensor AsTensor(const std::vector<double>& values, int64_t heads,
                    int64_t columns) {
  return ViewOf(values,
                {static_cast<int64_t>(values.size()) / (heads * columns), heads,
                 columns});
}

// What a rank returns.
struct RankResult {
  AttentionOutput output;
  AttentionGrads grads;
  int64_t bytes_received = 0;
  int64_t backward_bytes_received = 0;
};

absl::StatusOr<RankResult> RunRank(const AttentionCase& input,
                                   const KvExchange& exchange,
                                   const ShardPlan& plan, at::ScalarType type,
                                   Communicator& group) {
  CF_RETURN_IF_ERROR(CheckDigestAgreement(group, plan.digest));
  const std::vector<int32_t> index = LocalIndex(plan, group.rank());
  const auto rows = [&](const std::vector<double>& values, int64_t heads,
                        int64_t columns) {
    return ShardRows(AsTensor(values, heads, columns), index, type);
  };
  const AttentionInputs inputs = {
      .q = rows(input.q, input.num_heads, input.head_dim),
      .k = rows(input.k, input.num_kv_heads, input.head_dim),
      .v = rows(input.v, input.num_kv_heads, input.value_dim),
      .mask = input.mask,
      .scale = input.scale};
  const int64_t before = group.bytes().received;
  RankResult result;
  CF_ASSIGN_OR_RETURN(result.output,
                      ContextParallelAttention(exchange, inputs, plan, group));
  const int64_t between = group.bytes().received;
  result.bytes_received = between - before - result.output.lse_bytes_received;
  if (input.dout.empty()) return result;
  CF_ASSIGN_OR_RETURN(
      result.grads,
      ContextParallelAttentionBackward(
          exchange, inputs, result.output,
          rows(input.dout, input.num_heads, input.value_dim), plan, group));
  result.backward_bytes_received = group.bytes().received - between;
  return result;
}

void PutTogether(const AttentionCase& input, const ShardPlan& plan,
                 const std::vector<RankResult>& ranks, AttendResult& result) {
  for (int rank = 0; rank < plan.cp_size; ++rank) {
    const RankResult& part = ranks[rank];
    const std::vector<int32_t> index = LocalIndex(plan, rank);
    PutShardRows(part.output.out, index, result.out);
    PutShardRows(part.output.lse, index, result.lse);
    result.bytes_received.push_back(part.bytes_received);
    result.lse_bytes_received.push_back(part.output.lse_bytes_received);
    if (input.dout.empty()) continue;
    PutShardRows(part.grads.dq, index, result.dq);
    PutShardRows(part.grads.dk, index, result.dk);
    PutShardRows(part.grads.dv, index, result.dv);
    result.backward_bytes_received.push_back(part.backward_bytes_received);
  }
}

// The case with the numbers that `type` makes of its own.
AttentionCase Rounded(AttentionCase input, at::ScalarType type) {
  for (std::vector<double>* values :
       {&input.q, &input.k, &input.v, &input.dout}) {
    const at::Tensor view = AsTensor(*values, 1, 1);
    view.copy_(view.to(type));
  }
  return input;
}

}  // namespace

absl::StatusOr<AttendResult> Attend(const AttentionCase& input,
                                    const KvExchange& exchange,
                                    const CaseOptions& options) {
  CF_ASSIGN_OR_RETURN(const at::ScalarType type, ComputeTypeOf(options.dtype));
  const int num_ranks = options.threads.num_ranks;
  CF_ASSIGN_OR_RETURN(
      const ShardPlan plan,
      PlanShards(input.lengths,
                 ResolveLayout(options.layout, input.has_lengths), num_ranks));
  std::vector<RankResult> ranks(num_ranks);
  CF_RETURN_IF_ERROR(RunRankThreads(
      options.threads,
      [&](const std::shared_ptr<Communicator>& group) -> absl::Status {
        CF_ASSIGN_OR_RETURN(ranks[group->rank()],
                            RunRank(input, exchange, plan, type, *group));
        return absl::OkStatus();
      }));
  AttendResult result = EmptyResult(input);
  PutTogether(input, plan, ranks, result);
  result.max_difference =
      MaxDifference(result, OneDeviceResult(Rounded(input, type)));
  return result;
}

}  // namespace cpfeed

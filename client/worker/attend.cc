#include "client/worker/attend.h"

#include <ATen/Parallel.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/worker/one_device.h"
#include "core/attention/cp_attention.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/comm/agreement.h"
#include "core/comm/communicator.h"
#include "core/comm/gloo_communicator.h"
#include "core/comm/loopback_communicator.h"
#include "core/comm/rendezvous_store.h"
#include "core/plan/layout.h"
#include "core/plan/shard_plan.h"

namespace cpfeed {
namespace {

absl::StatusOr<at::ScalarType> TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return at::kDouble;
    case DType::kFloat32:
      return at::kFloat;
    case DType::kBfloat16:
      return at::kBFloat16;
    default:
      return MakeError(absl::StatusCode::kUnimplemented, kNotSupported,
                       absl::StrCat("dtype is ", DTypeName(dtype),
                                    "; must be float64, float32 or bfloat16"));
  }
}

// The numbers as [T, heads, columns]; valid as long as they.
at::Tensor AsTensor(const std::vector<double>& values, int64_t heads,
                    int64_t columns) {
  return at::from_blob(
      const_cast<double*>(values.data()),
      {static_cast<int64_t>(values.size()) / (heads * columns), heads, columns},
      at::kDouble);
}

// The rows of a shard; 0 where the stream has none.
at::Tensor ShardRows(const at::Tensor& stream,
                     const std::vector<int32_t>& index, at::ScalarType type) {
  const at::Tensor rows = at::zeros(
      {static_cast<int64_t>(index.size()), stream.size(1), stream.size(2)},
      at::kDouble);
  for (size_t row = 0; row < index.size(); ++row) {
    if (index[row] < 0) continue;
    rows.select(0, static_cast<int64_t>(row))
        .copy_(stream.select(0, index[row]));
  }
  return rows.to(type);
}

void Unshard(const at::Tensor& shard, const std::vector<int32_t>& index,
             std::vector<double>& stream) {
  const at::Tensor rows = shard.to(at::kDouble).contiguous();
  const int64_t width = rows.numel() / std::max<int64_t>(rows.size(0), 1);
  const double* from = rows.data_ptr<double>();
  for (const int32_t position : index) {
    if (position >= 0) {
      std::copy_n(from, width, stream.begin() + position * width);
    }
    from += width;
  }
}

using Group = std::vector<std::unique_ptr<Communicator>>;

// The ends of a Gloo group; every rank has a connection of its own, as
// processes have.
absl::StatusOr<Group> MakeGlooGroup(int size, absl::Duration timeout) {
  CF_ASSIGN_OR_RETURN(const auto host, RendezvousStore::Open(
                                           {.host = true, .timeout = timeout}));
  Group ends(size);
  std::vector<absl::Status> statuses(size);
  const auto join = [&](int rank) -> absl::Status {
    CF_ASSIGN_OR_RETURN(
        const auto store,
        RendezvousStore::Open({.port = host->port(), .timeout = timeout}));
    CF_ASSIGN_OR_RETURN(ends[rank],
                        JoinGlooGroup(store, {.rank = rank,
                                              .size = size,
                                              .comm = {.timeout = timeout},
                                              .join_timeout = timeout,
                                              .host_name = "127.0.0.1"}));
    return absl::OkStatus();
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] { statuses[rank] = join(rank); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) CF_RETURN_IF_ERROR(status);
  return ends;
}

absl::StatusOr<Group> MakeGroup(const AttendOptions& options) {
  if (options.transport == AttendTransport::kGloo) {
    return MakeGlooGroup(options.num_ranks, options.timeout);
  }
  return MakeLoopbackGroup(options.num_ranks, {.timeout = options.timeout});
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
                 const std::vector<absl::StatusOr<RankResult>>& ranks,
                 AttendResult& result) {
  for (int rank = 0; rank < plan.cp_size; ++rank) {
    const RankResult& part = *ranks[rank];
    const std::vector<int32_t> index = LocalIndex(plan, rank);
    Unshard(part.output.out, index, result.out);
    Unshard(part.output.lse, index, result.lse);
    result.bytes_received.push_back(part.bytes_received);
    result.lse_bytes_received.push_back(part.output.lse_bytes_received);
    if (input.dout.empty()) continue;
    Unshard(part.grads.dq, index, result.dq);
    Unshard(part.grads.dk, index, result.dk);
    Unshard(part.grads.dv, index, result.dv);
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
                                    const AttendOptions& options) {
  CF_ASSIGN_OR_RETURN(const at::ScalarType type, TypeOf(options.dtype));
  CF_ASSIGN_OR_RETURN(
      const ShardPlan plan,
      PlanShards(input.lengths,
                 ResolveLayout(options.layout, input.has_lengths),
                 options.num_ranks));
  CF_ASSIGN_OR_RETURN(const Group group, MakeGroup(options));
  std::vector<absl::StatusOr<RankResult>> ranks(options.num_ranks,
                                                RankResult());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < options.num_ranks; ++rank) {
    threads.emplace_back([&, rank] {
      at::set_num_threads(1);
      ranks[rank] = RunRank(input, exchange, plan, type, *group[rank]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& rank : ranks) CF_RETURN_IF_ERROR(rank.status());
  AttendResult result = EmptyResult(input);
  PutTogether(input, plan, ranks, result);
  result.max_difference =
      MaxDifference(result, OneDeviceResult(Rounded(input, type)));
  return result;
}

}  // namespace cpfeed

#include "client/worker/delta_run.h"

#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "client/worker/delta_on_one_device.h"
#include "client/worker/rank_threads.h"
#include "client/worker/stream_rows.h"
#include "core/base/status_exception.h"
#include "core/base/status_macros.h"
#include "core/comm/agreement.h"
#include "core/plan/layout.h"
#include "core/plan/shard_plan.h"

namespace cpfeed {
namespace {

using Tensors = std::map<std::string, at::Tensor>;

// What a rank returns: its rows, and shares of sums.
struct RankResult {
  Tensors out;
  Tensors grad;
  int64_t bytes_received = 0;
  int64_t backward_bytes_received = 0;
};

absl::StatusOr<Tensors> Forward(const DeltaCase& input, const Tensors& in,
                                const std::shared_ptr<const PartGroup>& group) {
  if (!input.has_conv()) {
    CF_ASSIGN_OR_RETURN(
        const DeltaOutput output,
        ShardedDeltaRule(
            {in.at("q"), in.at("k"), in.at("v"), in.at("g"), in.at("beta")},
            input.options.scale, input.options.qk_l2norm, group,
            /*with_final_states=*/true));
    return Tensors{{"out", output.out}, {"final_state", output.final_states}};
  }
  CF_ASSIGN_OR_RETURN(
      const GatedDeltaOutput output,
      GatedDelta({in.at("mixed_qkv"), in.at("conv_weight"), in.at("a"),
                  in.at("b"), in.at("A_log"), in.at("dt_bias")},
                 input.options, group, /*with_details=*/true));
  return Tensors{{"out", output.out},
                 {"final_state", output.final_states},
                 {"conv_out", output.conv_out},
                 {"g", output.g},
                 {"beta", output.beta}};
}

absl::StatusOr<RankResult> RunRank(const DeltaCase& input,
                                   std::shared_ptr<const ShardPlan> plan,
                                   at::ScalarType type,
                                   const std::shared_ptr<Communicator>& group) {
  CF_RETURN_IF_ERROR(CheckDigestAgreement(*group, plan->digest));
  const std::vector<int32_t> index = LocalIndex(*plan, group->rank());
  Tensors in;
  for (const auto& [name, array] : input.in) {
    const at::Tensor view = ViewOf(array.values, array.shape);
    in[name] = (HasRows(name) ? ShardRows(view, index, type) : view.to(type))
                   .clone()
                   .requires_grad_(!input.dout.values.empty());
  }
  const int64_t before = group->bytes().received;
  RankResult result;
  CF_ASSIGN_OR_RETURN(result.out,
                      Forward(input, in, MakePartGroup(plan, group)));
  const int64_t between = group->bytes().received;
  result.bytes_received = between - before;
  if (input.dout.values.empty()) return result;
  try {
    torch::autograd::backward(
        {result.out.at("out")},
        {ShardRows(ViewOf(input.dout.values, input.dout.shape), index, type)});
  } catch (const StatusException& error) {
    return error.status();
  }
  for (const auto& [name, leaf] : in) result.grad[name] = leaf.grad();
  result.backward_bytes_received = group->bytes().received - between;
  return result;
}

// Puts one array of all ranks together: rows at their places, else a sum.
NumberArray Together(const ShardPlan& plan,
                     const std::vector<RankResult>& ranks,
                     Tensors RankResult::*part, const std::string& name,
                     bool has_rows, int64_t rows) {
  const at::Tensor& first = (ranks[0].*part).at(name);
  NumberArray whole{.shape = first.sizes().vec()};
  if (has_rows) whole.shape[0] = rows;
  int64_t size = 1;
  for (const int64_t axis : whole.shape) size *= axis;
  whole.values.resize(size);
  for (int rank = 0; rank < plan.cp_size; ++rank) {
    const at::Tensor& tensor = (ranks[rank].*part).at(name);
    if (has_rows) {
      PutShardRows(tensor, LocalIndex(plan, rank), whole.values);
    } else {
      const at::Tensor sum = ViewOf(whole.values, whole.shape);
      sum.add_(tensor.detach().to(at::kDouble));
    }
  }
  return whole;
}

double MaxDifference(const std::map<std::string, NumberArray>& given,
                     const std::map<std::string, NumberArray>& expected) {
  double most = 0;
  for (const auto& [name, array] : expected) {
    const std::vector<double>& values = given.at(name).values;
    CF_CHECK(values.size() == array.values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const double a = values[i];
      const double b = array.values[i];
      if (a == b || (std::isnan(a) && std::isnan(b))) continue;
      const double difference = std::abs(a - b);
      most = std::isnan(difference) ? std::numeric_limits<double>::infinity()
                                    : std::max(most, difference);
    }
  }
  return most;
}

// The case with the numbers that `type` makes of its own.
DeltaCase Rounded(DeltaCase input, at::ScalarType type) {
  const auto round = [&](NumberArray& array) {
    const at::Tensor view = ViewOf(array.values, array.shape);
    view.copy_(view.to(type));
  };
  for (auto& [name, array] : input.in) round(array);
  if (!input.dout.values.empty()) round(input.dout);
  return input;
}

}  // namespace

absl::StatusOr<DeltaResult> RunDelta(const DeltaCase& input,
                                     const CaseOptions& options) {
  CF_ASSIGN_OR_RETURN(const at::ScalarType type, ComputeTypeOf(options.dtype));
  const int num_ranks = options.threads.num_ranks;
  CF_ASSIGN_OR_RETURN(
      ShardPlan planned,
      PlanShards(input.lengths,
                 ResolveLayout(options.layout, input.has_lengths), num_ranks));
  const auto plan = std::make_shared<const ShardPlan>(std::move(planned));
  std::vector<RankResult> ranks(num_ranks);
  CF_RETURN_IF_ERROR(RunRankThreads(
      options.threads,
      [&](const std::shared_ptr<Communicator>& group) -> absl::Status {
        CF_ASSIGN_OR_RETURN(ranks[group->rank()],
                            RunRank(input, plan, type, group));
        return absl::OkStatus();
      }));
  DeltaResult result;
  const int64_t rows = input.num_rows();
  for (const auto& [name, tensor] : ranks[0].out) {
    result.out[name] = Together(*plan, ranks, &RankResult::out, name,
                                name != "final_state", rows);
  }
  for (const auto& [name, tensor] : ranks[0].grad) {
    result.grad[name] =
        Together(*plan, ranks, &RankResult::grad, name, HasRows(name), rows);
  }
  for (const RankResult& rank : ranks) {
    result.bytes_received.push_back(rank.bytes_received);
    result.backward_bytes_received.push_back(rank.backward_bytes_received);
  }
  const OneDeviceDelta expected = DeltaOnOneDevice(Rounded(input, type));
  result.max_difference = std::max(MaxDifference(result.out, expected.out),
                                   MaxDifference(result.grad, expected.grad));
  return result;
}

}  // namespace cpfeed

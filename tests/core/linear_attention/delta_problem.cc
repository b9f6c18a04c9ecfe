#include "tests/core/linear_attention/delta_problem.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "core/base/status_macros.h"
#include "core/comm/loopback_communicator.h"

namespace cpfeed::testing {
namespace {

const std::set<std::string>& Parameters() {
  static const auto* const names =
      new std::set<std::string>{"conv_weight", "a_log", "dt_bias"};
  return *names;
}

int64_t NumRows(const PackedLengths& lengths) {
  int64_t rows = 0;
  for (const int64_t slot : lengths.padded) rows += slot;
  return rows;
}

at::Tensor Random(std::vector<int64_t> shape, std::mt19937_64& random) {
  at::Tensor tensor = at::zeros(shape, at::kDouble);
  std::normal_distribution<double> normal;
  auto* const data = tensor.mutable_data_ptr<double>();
  for (int64_t i = 0; i < tensor.numel(); ++i) data[i] = normal(random);
  return tensor;
}

void SetPadding(const PackedLengths& lengths, double value,
                const at::Tensor& rows) {
  int64_t begin = 0;
  for (int64_t i = 0; i < lengths.num_sequences(); ++i) {
    rows.narrow(0, begin + lengths.real[i], lengths.padded[i] - lengths.real[i])
        .fill_(value);
    begin += lengths.padded[i];
  }
}

// Leaves that ask for gradients.
Tensors Leaves(const Tensors& tensors) {
  Tensors leaves;
  for (const auto& [name, tensor] : tensors) {
    leaves[name] = tensor.detach().clone().set_requires_grad(true);
  }
  return leaves;
}

at::Tensor IndexOf(const std::vector<int64_t>& rows) {
  return at::from_blob(const_cast<int64_t*>(rows.data()),
                       {static_cast<int64_t>(rows.size())}, at::kLong)
      .clone();
}

// The rows of one sequence, [length, ...].
struct SlowSequence {
  at::Tensor q, k, v, g, beta;
};

at::Tensor Norm(const at::Tensor& x) {
  return x * at::rsqrt((x * x).sum(-1, /*keepdim=*/true) + 1e-6);
}

// Returns out [length, value_heads, V] and the state behind.
std::pair<at::Tensor, at::Tensor> SlowRule(const SlowSequence& in,
                                           const GatedDeltaOptions& options) {
  std::vector<at::Tensor> head_outs, head_states;
  for (int64_t h = 0; h < options.value_heads; ++h) {
    const int64_t key_head = h / (options.value_heads / options.key_heads);
    at::Tensor state = at::zeros({options.key_dim, options.value_dim},
                                 in.v.options().requires_grad(false));
    std::vector<at::Tensor> outs = {
        at::zeros({0, options.value_dim}, state.options())};
    for (int64_t t = 0; t < in.v.size(0); ++t) {
      at::Tensor q = in.q[t][key_head];
      at::Tensor k = in.k[t][key_head];
      if (options.qk_l2norm) {
        q = Norm(q);
        k = Norm(k);
      }
      state = state * at::exp(in.g[t][h]);
      const at::Tensor error = in.v[t][h] - at::matmul(k, state);
      state = state + at::outer(k, error * in.beta[t][h]);
      outs.push_back(at::matmul(q * options.scale, state).unsqueeze(0));
    }
    head_outs.push_back(at::cat(outs));
    head_states.push_back(state);
  }
  return {at::stack(head_outs, 1), at::stack(head_states)};
}

at::Tensor SlowConv(const at::Tensor& x, const at::Tensor& weight) {
  const int64_t width = weight.size(1);
  std::vector<at::Tensor> rows = {x.narrow(0, 0, 0)};
  for (int64_t t = 0; t < x.size(0); ++t) {
    at::Tensor sum = at::zeros({x.size(1)}, x.options().requires_grad(false));
    for (int64_t j = 0; j < width && j <= t; ++j) {
      sum = sum + x[t - j] * weight.select(1, width - 1 - j);
    }
    rows.push_back(sum.unsqueeze(0));
  }
  return at::silu(at::cat(rows));
}

// Adds the sequence's rows of out and of what the rule was given.
void SlowSequenceAnswer(const DeltaProblem& problem, const Tensors& leaves,
                        int64_t begin, int64_t length,
                        std::map<std::string, std::vector<at::Tensor>>& all) {
  const GatedDeltaOptions& options = problem.options;
  const auto rows = [&](const char* name) {
    return leaves.at(name).narrow(0, begin, length);
  };
  SlowSequence in;
  if (problem.has_conv()) {
    const at::Tensor conv =
        SlowConv(rows("mixed_qkv"), leaves.at("conv_weight"));
    const int64_t keys = options.key_heads * options.key_dim;
    const auto heads = [&](int64_t first, int64_t count, int64_t columns) {
      return conv.narrow(1, first, count * columns)
          .reshape({length, count, columns});
    };
    in = {.q = heads(0, options.key_heads, options.key_dim),
          .k = heads(keys, options.key_heads, options.key_dim),
          .v = heads(2 * keys, options.value_heads, options.value_dim),
          .g = -at::exp(leaves.at("a_log")) *
               at::softplus(rows("a") + leaves.at("dt_bias")),
          .beta = at::sigmoid(rows("b"))};
    all["conv_out"].push_back(conv);
    all["g"].push_back(in.g);
    all["beta"].push_back(in.beta);
  } else {
    in = {rows("q"), rows("k"), rows("v"), rows("g"), rows("beta")};
  }
  const auto [out, state] = SlowRule(in, options);
  all["out"].push_back(out);
  all["final_states"].push_back(state.unsqueeze(0));
}

// Rows of padding of 0 between the sequences.
at::Tensor Stream(const PackedLengths& lengths,
                  const std::vector<at::Tensor>& sequences) {
  std::vector<at::Tensor> rows;
  for (size_t i = 0; i < sequences.size(); ++i) {
    rows.push_back(sequences[i]);
    std::vector<int64_t> shape = sequences[i].sizes().vec();
    shape[0] = lengths.padded[i] - lengths.real[i];
    rows.push_back(
        at::zeros(shape, sequences[i].options().requires_grad(false)));
  }
  return at::cat(rows);
}

// Rows are those of the rank's shard.
DeltaAnswer RunRank(const DeltaProblem& problem,
                    std::shared_ptr<const ShardPlan> plan,
                    std::shared_ptr<Communicator> communicator) {
  const int rank = communicator->rank();
  const std::vector<int32_t> index = LocalIndex(*plan, rank);
  std::vector<int64_t> rows;
  for (const int32_t position : index) rows.push_back(std::max(position, 0));
  const at::Tensor select = IndexOf(rows);
  Tensors shards;
  for (const auto& [name, tensor] : problem.in) {
    shards[name] = Parameters().contains(name)
                       ? tensor
                       : at::index_select(tensor, 0, select);
  }
  shards = Leaves(shards);
  const auto group = MakePartGroup(std::move(plan), std::move(communicator));
  DeltaAnswer answer;
  if (problem.has_conv()) {
    const auto output =
        GatedDelta({shards["mixed_qkv"], shards["conv_weight"], shards["a"],
                    shards["b"], shards["a_log"], shards["dt_bias"]},
                   problem.options, group, /*with_details=*/true);
    CF_CHECK(output.ok());
    answer = {{"out", output->out},
              {"final_states", output->final_states},
              {"conv_out", output->conv_out},
              {"g", output->g},
              {"beta", output->beta}};
  } else {
    const auto output = ShardedDeltaRule(
        {shards["q"], shards["k"], shards["v"], shards["g"], shards["beta"]},
        problem.options.scale, problem.options.qk_l2norm, group,
        /*with_final_states=*/true);
    CF_CHECK(output.ok());
    answer = {{"out", output->out}, {"final_states", output->final_states}};
  }
  torch::autograd::backward({answer["out"]},
                            {at::index_select(problem.dout, 0, select)});
  for (auto& [name, tensor] : answer) tensor = tensor.detach();
  for (const auto& [name, leaf] : shards) answer["d" + name] = leaf.grad();
  return answer;
}

bool HasRows(const std::string& name) {
  return name != "final_states" &&
         !(name[0] == 'd' && Parameters().contains(name.substr(1)));
}

}  // namespace

DeltaProblem RandomProblem(const PackedLengths& lengths,
                           const GatedDeltaOptions& options, bool with_conv,
                           int64_t width, at::ScalarType dtype, uint64_t seed) {
  std::mt19937_64 random(seed);
  const int64_t rows = NumRows(lengths);
  const int64_t keys = options.key_heads;
  const int64_t values = options.value_heads;
  DeltaProblem problem{.lengths = lengths, .options = options};
  if (with_conv) {
    const int64_t columns =
        2 * keys * options.key_dim + values * options.value_dim;
    problem.in = {{"mixed_qkv", Random({rows, columns}, random)},
                  {"conv_weight", Random({columns, width}, random)},
                  {"a", Random({rows, values}, random)},
                  {"b", Random({rows, values}, random)},
                  {"a_log", Random({values}, random)},
                  {"dt_bias", Random({values}, random)}};
  } else {
    problem.in = {{"q", Random({rows, keys, options.key_dim}, random)},
                  {"k", Random({rows, keys, options.key_dim}, random)},
                  {"v", Random({rows, values, options.value_dim}, random)},
                  {"g", -at::softplus(Random({rows, values}, random))},
                  {"beta", at::sigmoid(Random({rows, values}, random))}};
  }
  problem.dout = Random({rows, values, options.value_dim}, random);
  for (auto& [name, tensor] : problem.in) {
    tensor = tensor.to(dtype);
    if (!Parameters().contains(name)) {
      SetPadding(lengths, std::numeric_limits<double>::quiet_NaN(), tensor);
    }
  }
  problem.dout = problem.dout.to(dtype);
  return problem;
}

DeltaAnswer SlowAnswer(const DeltaProblem& problem) {
  Tensors in;
  for (const auto& [name, tensor] : problem.in)
    in[name] = tensor.to(at::kDouble);
  const Tensors leaves = Leaves(in);
  std::map<std::string, std::vector<at::Tensor>> all;
  int64_t begin = 0;
  for (int64_t i = 0; i < problem.lengths.num_sequences(); ++i) {
    SlowSequenceAnswer(problem, leaves, begin, problem.lengths.real[i], all);
    begin += problem.lengths.padded[i];
  }
  DeltaAnswer answer;
  for (const auto& [name, sequences] : all) {
    answer[name] =
        HasRows(name) ? Stream(problem.lengths, sequences) : at::cat(sequences);
  }
  const at::Tensor dout = problem.dout.to(at::kDouble).clone();
  torch::autograd::backward({answer["out"]}, {dout});
  for (auto& [name, tensor] : answer) tensor = tensor.detach();
  for (const auto& [name, leaf] : leaves) answer["d" + name] = leaf.grad();
  return answer;
}

DeltaAnswer GroupAnswer(const DeltaProblem& problem, const ShardPlan& plan) {
  const auto shared = std::make_shared<const ShardPlan>(plan);
  auto group = MakeLoopbackGroup(plan.cp_size);
  std::vector<DeltaAnswer> answers(plan.cp_size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < plan.cp_size; ++rank) {
    threads.emplace_back([&, rank] {
      answers[rank] = RunRank(problem, shared, std::move(group[rank]));
    });
  }
  for (std::thread& thread : threads) thread.join();
  DeltaAnswer whole;
  for (const auto& [name, first] : answers[0]) {
    if (!HasRows(name)) {
      whole[name] = at::zeros_like(first);
      for (const DeltaAnswer& answer : answers) whole[name] += answer.at(name);
      continue;
    }
    std::vector<int64_t> shape = first.sizes().vec();
    shape[0] = NumRows(problem.lengths);
    whole[name] = at::zeros(shape, first.options());
    for (int rank = 0; rank < plan.cp_size; ++rank) {
      const std::vector<int32_t> index = LocalIndex(plan, rank);
      std::vector<int64_t> from, to;
      for (size_t row = 0; row < index.size(); ++row) {
        if (index[row] < 0) continue;
        from.push_back(static_cast<int64_t>(row));
        to.push_back(index[row]);
      }
      whole[name].index_copy_(
          0, IndexOf(to),
          at::index_select(answers[rank].at(name), 0, IndexOf(from)));
    }
  }
  return whole;
}

}  // namespace cpfeed::testing

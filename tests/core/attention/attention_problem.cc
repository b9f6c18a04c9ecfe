#include "tests/core/attention/attention_problem.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <thread>

#include "core/attention/cp_attention.h"
#include "core/attention/dense_reference.h"
#include "core/attention/kv_exchange.h"
#include "core/base/status_macros.h"
#include "core/comm/communicator.h"
#include "core/comm/loopback_communicator.h"
#include "core/comm/nccl_communicator.h"
#include "core/comm/staged_communicator.h"
#include "core/plan/layout_spec.h"

namespace cpfeed::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

at::ScalarType TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return at::kDouble;
    case DType::kFloat32:
      return at::kFloat;
    case DType::kBfloat16:
      return at::kBFloat16;
    default:
      return at::kHalf;
  }
}

// Calls `visit(sequence, first_row)` for each slot.
template <class Visit>
void ForEachSlot(const PackedLengths& lengths, Visit visit) {
  int64_t row = 0;
  for (int64_t s = 0; s < lengths.num_sequences(); ++s) {
    visit(s, row);
    row += lengths.padded[s];
  }
}

std::vector<double> RandomRows(const PackedLengths& lengths, int64_t width,
                               std::mt19937& random) {
  std::uniform_int_distribution<int> sixty_fourths(-64, 63);
  std::vector<double> values;
  ForEachSlot(lengths, [&](int64_t s, int64_t) {
    for (int64_t i = 0; i < lengths.real[s] * width; ++i) {
      values.push_back(sixty_fourths(random) / 64.0);
    }
    values.insert(values.end(), (lengths.padded[s] - lengths.real[s]) * width,
                  kNaN);
  });
  return values;
}

// The rows of a shard, NaN where the stream has none.
at::Tensor ShardRows(const std::vector<double>& stream, int64_t heads,
                     int64_t dim, const std::vector<int32_t>& index,
                     DType dtype, at::Device device) {
  const int64_t width = heads * dim;
  at::Tensor rows =
      at::empty({static_cast<int64_t>(index.size()), heads, dim}, at::kDouble);
  double* to = rows.data_ptr<double>();
  for (const int32_t position : index) {
    if (position < 0) {
      std::fill_n(to, width, kNaN);
    } else {
      std::copy_n(stream.begin() + position * width, width, to);
    }
    to += width;
  }
  return rows.to(TypeOf(dtype)).to(device);
}

// Puts a shard's rows at their positions; returns whether the others are all
// `empty`.
bool Unshard(const at::Tensor& shard, const std::vector<int32_t>& index,
             double empty, std::vector<double>& stream) {
  const at::Tensor rows = shard.to(at::kDouble).cpu().contiguous();
  const int64_t width = rows.numel() / std::max<int64_t>(rows.size(0), 1);
  const double* from = rows.data_ptr<double>();
  bool empties = true;
  for (const int32_t position : index) {
    if (position >= 0) {
      std::copy_n(from, width, stream.begin() + position * width);
    } else {
      empties &= std::all_of(from, from + width,
                             [&](double value) { return value == empty; });
    }
    from += width;
  }
  return empties;
}

AttentionAnswer EmptyAnswer(const AttentionProblem& p) {
  AttentionAnswer answer{
      .out = std::vector<double>(p.num_rows() * p.num_heads * p.value_dim),
      .lse = std::vector<double>(p.num_rows() * p.num_heads, -kInfinity)};
  if (p.dout.empty()) return answer;
  answer.dq.resize(p.q.size());
  answer.dk.resize(p.k.size());
  answer.dv.resize(p.v.size());
  return answer;
}

// The part of one slot's sequence.
DenseSequence SequenceAt(const AttentionProblem& p, int64_t tokens,
                         int64_t row) {
  const auto rows = [&](const std::vector<double>& stream, int64_t width) {
    const auto first = stream.begin() + row * width;
    return std::vector<double>(first, first + tokens * width);
  };
  return {.tokens = tokens,
          .num_heads = p.num_heads,
          .num_kv_heads = p.num_kv_heads,
          .head_dim = p.head_dim,
          .value_dim = p.value_dim,
          .scale = p.scale,
          .left = p.mask.left,
          .right = p.mask.right,
          .q = rows(p.q, p.num_heads * p.head_dim),
          .k = rows(p.k, p.num_kv_heads * p.head_dim),
          .v = rows(p.v, p.num_kv_heads * p.value_dim)};
}

void DenseGradients(const AttentionProblem& p, const DenseSequence& sequence,
                    int64_t row, AttentionAnswer& answer) {
  const int64_t width = p.num_heads * p.value_dim;
  const auto dout = p.dout.begin() + row * width;
  const DenseGrads grads = DenseAttentionBackward(
      sequence, std::vector<double>(dout, dout + sequence.tokens * width));
  std::copy(grads.dq.begin(), grads.dq.end(),
            answer.dq.begin() + row * p.num_heads * p.head_dim);
  std::copy(grads.dk.begin(), grads.dk.end(),
            answer.dk.begin() + row * p.num_kv_heads * p.head_dim);
  std::copy(grads.dv.begin(), grads.dv.end(),
            answer.dv.begin() + row * p.num_kv_heads * p.value_dim);
}

// What one rank made of its part.
struct RankAnswer {
  AttentionOutput output;
  AttentionGrads grads;
  int64_t bytes_received = 0;
  int64_t backward_bytes_received = 0;
};

absl::StatusOr<RankAnswer> RunRank(const AttentionProblem& p,
                                   const ShardPlan& plan,
                                   const KvExchange& exchange, DType dtype,
                                   at::Device device, Communicator& group) {
  const std::vector<int32_t> index = LocalIndex(plan, group.rank());
  const auto rows = [&](const std::vector<double>& stream, int64_t heads,
                        int64_t dim) {
    return ShardRows(stream, heads, dim, index, dtype, device);
  };
  const AttentionInputs inputs = {.q = rows(p.q, p.num_heads, p.head_dim),
                                  .k = rows(p.k, p.num_kv_heads, p.head_dim),
                                  .v = rows(p.v, p.num_kv_heads, p.value_dim),
                                  .mask = p.mask,
                                  .scale = p.scale};
  RankAnswer answer;
  CF_ASSIGN_OR_RETURN(answer.output,
                      ContextParallelAttention(exchange, inputs, plan, group));
  const int64_t forward = group.bytes().received;
  answer.bytes_received = forward - answer.output.lse_bytes_received;
  if (p.dout.empty()) return answer;
  CF_ASSIGN_OR_RETURN(answer.grads,
                      ContextParallelAttentionBackward(
                          exchange, inputs, answer.output,
                          rows(p.dout, p.num_heads, p.value_dim), plan, group));
  answer.backward_bytes_received = group.bytes().received - forward;
  return answer;
}

}  // namespace

int64_t AttentionProblem::num_rows() const {
  return std::reduce(lengths.padded.begin(), lengths.padded.end(), int64_t{0});
}

void FillAtRandom(AttentionProblem& p, uint32_t seed) {
  std::mt19937 random(seed);
  p.q = RandomRows(p.lengths, p.num_heads * p.head_dim, random);
  p.k = RandomRows(p.lengths, p.num_kv_heads * p.head_dim, random);
  p.v = RandomRows(p.lengths, p.num_kv_heads * p.value_dim, random);
  p.dout = RandomRows(p.lengths, p.num_heads * p.value_dim, random);
}

AttentionAnswer DenseAnswer(const AttentionProblem& p) {
  AttentionAnswer answer = EmptyAnswer(p);
  ForEachSlot(p.lengths, [&](int64_t s, int64_t row) {
    const DenseSequence sequence = SequenceAt(p, p.lengths.real[s], row);
    const DenseResult result = DenseAttention(sequence);
    std::copy(result.out.begin(), result.out.end(),
              answer.out.begin() + row * p.num_heads * p.value_dim);
    std::copy(result.lse.begin(), result.lse.end(),
              answer.lse.begin() + row * p.num_heads);
    if (!p.dout.empty()) DenseGradients(p, sequence, row, answer);
  });
  return answer;
}

absl::StatusOr<GroupAnswer> RunGroup(const AttentionProblem& p,
                                     const ShardPlan& plan,
                                     absl::string_view exchange, DType dtype,
                                     const KvExchangeOptions& options,
                                     RanksOn ranks_on) {
  CF_ASSIGN_OR_RETURN(const auto kv_exchange,
                      MakeKvExchange(exchange, options));
  auto group = MakeLoopbackGroup(plan.cp_size);
  const at::Device device = ranks_on == RanksOn::kGpu ? at::kCUDA : at::kCPU;
  if (device.is_cuda()) {
    for (auto& end : group) {
      end = StageOnHost(std::move(end), CudaDeviceMemory({}));
    }
  }
  std::vector<absl::StatusOr<RankAnswer>> ranks(plan.cp_size, RankAnswer());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < plan.cp_size; ++rank) {
    threads.emplace_back([&, rank] {
      at::set_num_threads(1);
      ranks[rank] = RunRank(p, plan, *kv_exchange, dtype, device, *group[rank]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  GroupAnswer answer{EmptyAnswer(p)};
  for (int rank = 0; rank < plan.cp_size; ++rank) {
    CF_RETURN_IF_ERROR(ranks[rank].status());
    const RankAnswer& part = *ranks[rank];
    const std::vector<int32_t> index = LocalIndex(plan, rank);
    const auto unshard = [&](const at::Tensor& shard, double empty,
                             std::vector<double>& stream) {
      answer.pad_rows_are_empty &= Unshard(shard, index, empty, stream);
    };
    unshard(part.output.out, 0, answer.out);
    unshard(part.output.lse, -kInfinity, answer.lse);
    answer.bytes_received.push_back(part.bytes_received);
    if (p.dout.empty()) continue;
    unshard(part.grads.dq, 0, answer.dq);
    unshard(part.grads.dk, 0, answer.dk);
    unshard(part.grads.dv, 0, answer.dv);
    answer.backward_bytes_received.push_back(part.backward_bytes_received);
  }
  return answer;
}

bool Does(absl::string_view exchange, const AttentionProblem& problem,
          const ShardPlan& plan) {
  if (plan.cp_size == 1) return true;
  const auto shares = [&](int64_t size) {
    return problem.num_heads % size == 0 && (problem.num_kv_heads % size == 0 ||
                                             size % problem.num_kv_heads == 0);
  };
  const Layout layout = plan.spec.layout;
  const bool blocks =
      !problem.mask.is_window() &&
      (layout == Layout::kContiguous || layout == Layout::kHeadTailPerRow ||
       layout == Layout::kHeadTailPerSequence);
  if (exchange == "ring") return blocks;
  if (exchange == "alltoall") return shares(plan.cp_size);
  if (exchange == "hierarchical") {
    return blocks && plan.cp_size % 2 == 0 && shares(2);
  }
  return true;
}

double MaxDifference(const std::vector<double>& a,
                     const std::vector<double>& b) {
  CF_CHECK(a.size() == b.size());
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    const double difference = std::abs(a[i] - b[i]);
    most = std::isnan(difference) ? kInfinity : std::max(most, difference);
  }
  return most;
}

double MaxDifference(const AttentionAnswer& a, const AttentionAnswer& b) {
  return std::max({MaxDifference(a.out, b.out), MaxDifference(a.lse, b.lse),
                   MaxDifference(a.dq, b.dq), MaxDifference(a.dk, b.dk),
                   MaxDifference(a.dv, b.dv)});
}

}  // namespace cpfeed::testing

#include "tests/core/attention/attention_problem.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <thread>

#include "core/attention/cp_attention.h"
#include "core/attention/dense_reference.h"
#include "core/attention/make_kv_exchange.h"
#include "core/base/status_macros.h"
#include "core/comm/loopback_communicator.h"

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
                     DType dtype) {
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
  return rows.to(TypeOf(dtype));
}

// Puts a shard's rows at their positions; returns whether the others are all
// `empty`.
bool Unshard(const at::Tensor& shard, const std::vector<int32_t>& index,
             double empty, std::vector<double>& stream) {
  const at::Tensor rows = shard.to(at::kDouble).contiguous();
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
  return {std::vector<double>(p.num_rows() * p.num_heads * p.value_dim),
          std::vector<double>(p.num_rows() * p.num_heads, -kInfinity)};
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
}

AttentionAnswer DenseAnswer(const AttentionProblem& p) {
  AttentionAnswer answer = EmptyAnswer(p);
  ForEachSlot(p.lengths, [&](int64_t s, int64_t row) {
    const int64_t tokens = p.lengths.real[s];
    const auto rows = [&](const std::vector<double>& stream, int64_t width) {
      const auto first = stream.begin() + row * width;
      return std::vector<double>(first, first + tokens * width);
    };
    const DenseResult result =
        DenseAttention({.tokens = tokens,
                        .num_heads = p.num_heads,
                        .num_kv_heads = p.num_kv_heads,
                        .head_dim = p.head_dim,
                        .value_dim = p.value_dim,
                        .scale = p.scale,
                        .left = p.mask.left,
                        .right = p.mask.right,
                        .q = rows(p.q, p.num_heads * p.head_dim),
                        .k = rows(p.k, p.num_kv_heads * p.head_dim),
                        .v = rows(p.v, p.num_kv_heads * p.value_dim)});
    std::copy(result.out.begin(), result.out.end(),
              answer.out.begin() + row * p.num_heads * p.value_dim);
    std::copy(result.lse.begin(), result.lse.end(),
              answer.lse.begin() + row * p.num_heads);
  });
  return answer;
}

absl::StatusOr<GroupAnswer> RunGroup(const AttentionProblem& p,
                                     const ShardPlan& plan,
                                     absl::string_view exchange, DType dtype) {
  CF_ASSIGN_OR_RETURN(const auto kv_exchange, MakeKvExchange(exchange));
  auto group = MakeLoopbackGroup(plan.cp_size);
  std::vector<absl::StatusOr<AttentionOutput>> outputs(plan.cp_size,
                                                       AttentionOutput());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < plan.cp_size; ++rank) {
    threads.emplace_back([&, rank] {
      at::set_num_threads(1);
      const std::vector<int32_t> index = LocalIndex(plan, rank);
      outputs[rank] = ContextParallelAttention(
          *kv_exchange,
          {.q = ShardRows(p.q, p.num_heads, p.head_dim, index, dtype),
           .k = ShardRows(p.k, p.num_kv_heads, p.head_dim, index, dtype),
           .v = ShardRows(p.v, p.num_kv_heads, p.value_dim, index, dtype),
           .mask = p.mask,
           .scale = p.scale},
          plan, *group[rank]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  GroupAnswer answer{EmptyAnswer(p), {}, true};
  for (int rank = 0; rank < plan.cp_size; ++rank) {
    CF_RETURN_IF_ERROR(outputs[rank].status());
    const std::vector<int32_t> index = LocalIndex(plan, rank);
    answer.pad_rows_are_empty &=
        Unshard(outputs[rank]->out, index, 0, answer.out) &&
        Unshard(outputs[rank]->lse, index, -kInfinity, answer.lse);
    answer.bytes_received.push_back(group[rank]->bytes().received);
  }
  return answer;
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

}  // namespace cpfeed::testing

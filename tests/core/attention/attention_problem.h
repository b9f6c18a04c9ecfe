// Attention problems over a packed stream, the obvious answer to them, and what
// a group of threads makes of them.

#ifndef CPFEED_TESTS_CORE_ATTENTION_ATTENTION_PROBLEM_H_
#define CPFEED_TESTS_CORE_ATTENTION_ATTENTION_PROBLEM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/attention/attention_mask.h"
#include "core/attention/make_kv_exchange.h"
#include "core/batch/packed_lengths.h"
#include "core/plan/layout_spec.h"
#include "core/plan/shard_plan.h"
#include "core/tensor/dtype.h"

namespace cpfeed::testing {

// Arrays are row-major over the padded stream of T = sum of slots rows.
struct AttentionProblem {
  PackedLengths lengths;
  AttentionMask mask;
  int64_t num_heads = 4;
  int64_t num_kv_heads = 2;
  int64_t head_dim = 8;
  int64_t value_dim = 8;
  double scale = 0.5;
  std::vector<double> q;  // [T, num_heads, head_dim]
  std::vector<double> k;  // [T, num_kv_heads, head_dim]
  std::vector<double> v;  // [T, num_kv_heads, value_dim]
  // [T, num_heads, value_dim], or empty: then no gradients are asked for.
  std::vector<double> dout;

  int64_t num_rows() const;
};

// Fills q, k, v and dout: multiples of 1/64 in [-1, 1), which every dtype holds
// exactly; NaN in the rows of padding, which nobody may read.
void FillAtRandom(AttentionProblem& problem, uint32_t seed);

struct AttentionAnswer {
  std::vector<double> out;  // [T, num_heads, value_dim]
  std::vector<double> lse;  // [T, num_heads]
  std::vector<double> dq;   // As q; empty without dout, like the next two.
  std::vector<double> dk;
  std::vector<double> dv;
};

// By DenseAttention and its backward pass, sequence by sequence.
AttentionAnswer DenseAnswer(const AttentionProblem& problem);

// What the ranks of a group returned, put back into the stream.
struct GroupAnswer : AttentionAnswer {
  // [cp_size], without what brings lse home.
  std::vector<int64_t> bytes_received;
  std::vector<int64_t> backward_bytes_received;  // [cp_size]
  // Whether rows that no position of the stream fills are 0 and -inf.
  bool pad_rows_are_empty = true;
};

enum class RanksOn {
  kCpu,
  kGpu,  // All of them on the first; what they exchange goes over the host.
};

// Shards the problem and runs it with one thread a rank, forward and, where
// there is a dout, backward. Rows that no rank holds are 0 and -inf.
//
// Errors: the first rank's error that there is.
absl::StatusOr<GroupAnswer> RunGroup(const AttentionProblem& problem,
                                     const ShardPlan& plan,
                                     absl::string_view exchange, DType dtype,
                                     const KvExchangeOptions& options = {},
                                     RanksOn ranks_on = RanksOn::kCpu);

// Whether the exchange takes this problem; by the rules of the documentation,
// not by its CheckSupport.
bool Does(absl::string_view exchange, const AttentionProblem& problem,
          const ShardPlan& plan);

// The largest |a - b|; infinity where just one is NaN, or they are different
// infinities.
double MaxDifference(const std::vector<double>& a,
                     const std::vector<double>& b);

// The largest over all results and gradients.
double MaxDifference(const AttentionAnswer& a, const AttentionAnswer& b);

}  // namespace cpfeed::testing

#endif  // CPFEED_TESTS_CORE_ATTENTION_ATTENTION_PROBLEM_H_

// Problems for the gated delta rule, the obvious answer, and what a group of
// threads makes of them.

#ifndef CPFEED_TESTS_CORE_LINEAR_ATTENTION_DELTA_PROBLEM_H_
#define CPFEED_TESTS_CORE_LINEAR_ATTENTION_DELTA_PROBLEM_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/batch/packed_lengths.h"
#include "core/linear_attention/gated_delta.h"
#include "core/plan/shard_plan.h"

namespace cpfeed::testing {

// Tensors by name; those with rows have one for each position of the padded
// stream, T.
using Tensors = std::map<std::string, at::Tensor>;

struct DeltaProblem {
  PackedLengths lengths;
  GatedDeltaOptions options;
  // mixed_qkv, conv_weight, a, b, a_log, dt_bias; or q, k, v, g, beta for the
  // rule alone.
  Tensors in;
  at::Tensor dout;  // [T, value_heads, V]

  bool has_conv() const { return in.contains("mixed_qkv"); }
};

// Random tensors of `dtype`, NaN in rows of padding, which nobody may read.
DeltaProblem RandomProblem(const PackedLengths& lengths,
                           const GatedDeltaOptions& options, bool with_conv,
                           int64_t width, at::ScalarType dtype, uint64_t seed);

// out, final_states, with a convolution conv_out, g and beta, and the gradient
// of every input under "d" and its name.
using DeltaAnswer = Tensors;

// Token by token, with LibTorch's own autograd, in float64: no code shared with
// the product.
DeltaAnswer SlowAnswer(const DeltaProblem& problem);

// By threads over a loopback group, put back into the stream; gradients of
// parameters are summed over ranks.
DeltaAnswer GroupAnswer(const DeltaProblem& problem, const ShardPlan& plan);

}  // namespace cpfeed::testing

#endif  // CPFEED_TESTS_CORE_LINEAR_ATTENTION_DELTA_PROBLEM_H_

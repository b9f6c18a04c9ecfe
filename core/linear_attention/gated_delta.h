// Gated delta attention over a packed stream whose shards are balanced for
// softmax attention: the layout is undone, the recurrence runs over contiguous
// parts, and the outputs go back to the shards.

#ifndef CPFEED_CORE_LINEAR_ATTENTION_GATED_DELTA_H_
#define CPFEED_CORE_LINEAR_ATTENTION_GATED_DELTA_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "core/linear_attention/delta_rule.h"
#include "core/linear_attention/part_group.h"

namespace cpfeed {

struct GatedDeltaOptions {
  int64_t key_heads = 0;
  int64_t value_heads = 0;  // A multiple of key_heads.
  int64_t key_dim = 0;      // K
  int64_t value_dim = 0;    // V
  double scale = 1.0;       // Multiplies q, after the norm.
  bool qk_l2norm = true;    // x * rsqrt(sum x^2 + 1e-6) over K, of q and k.
};

// Of one layer. Rows are those of this rank's shard.
struct GatedDeltaInputs {
  // [rows, 2 * key_heads * K + value_heads * V], laid out q | k | v.
  at::Tensor mixed_qkv;
  at::Tensor conv_weight;  // [columns of mixed_qkv, width], oldest tap first.
  at::Tensor a;            // [rows, value_heads]
  at::Tensor b;            // [rows, value_heads]
  at::Tensor a_log;        // [value_heads]
  at::Tensor dt_bias;      // [value_heads]
};

struct GatedDeltaOutput {
  at::Tensor out;  // [rows, value_heads, V]; rows of padding are 0.
  // With details:
  at::Tensor final_states;  // See DeltaOutput.
  // What the rule was given, [rows, ...]; rows of padding are 0.
  at::Tensor conv_out;  // After SiLU.
  at::Tensor g;         // -exp(a_log) * softplus(a + dt_bias)
  at::Tensor beta;      // sigmoid(b)
};

// Computes in float32 (float64 for float64 inputs) on the CPU, and returns the
// inputs' dtype on their device. Rows of padding leave the state as it is.
// Differentiable; gradients of conv_weight, a_log and dt_bias are this rank's
// share of a sum over ranks. `with_details` also gives the final states and
// sends conv_out, g and beta back to the shards; else the four are undefined.
//
// Errors:
//   INVALID_ARGUMENT  Shapes, heads or dtypes do not fit.
//   Others            Those of the group.
absl::StatusOr<GatedDeltaOutput> GatedDelta(
    const GatedDeltaInputs& inputs, const GatedDeltaOptions& options,
    const std::shared_ptr<const PartGroup>& group, bool with_details = false);

// The rule alone: q, k, v, g and beta are rows of this rank's shard. Otherwise
// the same.
absl::StatusOr<DeltaOutput> ShardedDeltaRule(
    const DeltaInputs& inputs, double scale, bool qk_l2norm,
    const std::shared_ptr<const PartGroup>& group,
    bool with_final_states = false);

}  // namespace cpfeed

#endif  // CPFEED_CORE_LINEAR_ATTENTION_GATED_DELTA_H_

// Rotary position embedding from a shard's own positions.

#ifndef CPFEED_CORE_ATTENTION_ROPE_H_
#define CPFEED_CORE_ATTENTION_ROPE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace cpfeed {

struct RopeOptions {
  double base = 10000.0;
  // For positions of several components: how many of the D / 2 frequencies
  // turn by each of them, in order; they sum to D / 2. Empty for one component.
  std::vector<int64_t> mrope_section;
};

// Turns x [T, heads, D], D even, by position_ids, [T] or [n_rope, T], integer:
// with frequency f_i = base^(-2 i / D), the pair (x_i, x_{i + D/2}) turns by
// the angle position * f_i ("half-split"). Angles are float64; the result has
// the dtype of x. Differentiable in x. Both are on one device, where all is
// computed.
//
// Positions are those that the shard brings: they restart at the begin of each
// document, and rank r's rows are anything but r * T, r * T + 1, ...
//
// Errors:
//   INVALID_ARGUMENT  Shapes, dtypes or devices do not fit, or the sections do
//                     not sum to D / 2, are negative or are not as many as the
//                     components.
absl::StatusOr<at::Tensor> ApplyRope(const at::Tensor& x,
                                     const at::Tensor& position_ids,
                                     const RopeOptions& options = {});

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_ROPE_H_

// A causal depthwise convolution over a stream that ranks hold in parts.

#ifndef CPFEED_CORE_LINEAR_ATTENTION_CAUSAL_CONV_H_
#define CPFEED_CORE_LINEAR_ATTENTION_CAUSAL_CONV_H_

#include <ATen/core/Tensor.h>

#include <memory>

#include "core/linear_attention/part_group.h"

namespace cpfeed {

// y [tokens, channels] of x [tokens, channels], both this rank's part, and
// weight [channels, width] with the oldest tap first (see conv_kernel.h); float
// or double. Taps do not reach over the begin of a sequence. What a part needs
// of those before it is fetched, also where it spans several of them.
//
// Differentiable. The gradient of `weight` is this rank's share: the whole is
// the sum over ranks.
//
// Throws StatusException: INVALID_ARGUMENT for shapes or dtypes that do not
// fit, and the group's errors.
at::Tensor CausalConv(const at::Tensor& x, const at::Tensor& weight,
                      std::shared_ptr<const PartGroup> group);

}  // namespace cpfeed

#endif  // CPFEED_CORE_LINEAR_ATTENTION_CAUSAL_CONV_H_

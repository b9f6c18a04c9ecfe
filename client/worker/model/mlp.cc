#include "client/worker/model/mlp.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/silu.h>

namespace cpfeed {

Mlp::Mlp(int64_t width, int64_t inner_width, Initializer& initializer)
    : gate_(register_parameter("gate", initializer.Map(inner_width, width))),
      up_(register_parameter("up", initializer.Map(inner_width, width))),
      down_(register_parameter("down", initializer.Map(width, inner_width))) {}

at::Tensor Mlp::operator()(const at::Tensor& x) const {
  return at::linear(at::silu(at::linear(x, gate_)) * at::linear(x, up_), down_);
}

}  // namespace cpfeed

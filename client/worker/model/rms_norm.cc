#include "client/worker/model/rms_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rsqrt.h>

namespace cpfeed {

RmsNorm::RmsNorm(int64_t width, double epsilon)
    : epsilon_(epsilon),
      weight_(register_parameter("weight", at::ones({width}))) {}

at::Tensor RmsNorm::operator()(const at::Tensor& x) const {
  return weight_ * x * at::rsqrt((x * x).mean(-1, /*keepdim=*/true) + epsilon_);
}

}  // namespace cpfeed

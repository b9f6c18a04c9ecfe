// Root-mean-square normalisation.

#ifndef CPFEED_CLIENT_WORKER_MODEL_RMS_NORM_H_
#define CPFEED_CLIENT_WORKER_MODEL_RMS_NORM_H_

#include <ATen/core/Tensor.h>
#include <torch/csrc/api/include/torch/nn/module.h>

#include <cstdint>

namespace cpfeed {

class RmsNorm : public torch::nn::Module {
 public:
  explicit RmsNorm(int64_t width, double epsilon = 1e-6);

  // weight * x / sqrt(mean(x^2) + epsilon) over the last axis, of `width`.
  at::Tensor operator()(const at::Tensor& x) const;

 private:
  const double epsilon_;
  at::Tensor weight_;  // [width], 1 at first.
};

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_MODEL_RMS_NORM_H_

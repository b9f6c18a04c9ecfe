#include "client/worker/model/optimizer.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <utility>

namespace cpfeed {

Optimizer::Optimizer(std::vector<at::Tensor> parameters, double learning_rate)
    : parameters_(std::move(parameters)), learning_rate_(learning_rate) {
  for (const at::Tensor& parameter : parameters_) {
    momentum_.push_back(at::zeros_like(parameter));
  }
}

void Optimizer::Step() {
  constexpr double kKept = 0.9;
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& gradient = parameters_[i].grad();
    if (!gradient.defined()) continue;
    momentum_[i].mul_(kKept).add_(gradient, 1 - kKept);
    gradient.zero_();
    const double size =
        std::sqrt((momentum_[i] * momentum_[i]).mean().item<double>());
    if (size > 0) parameters_[i].sub_(momentum_[i], learning_rate_ / size);
  }
}

}  // namespace cpfeed

#include "client/worker/model/model_difference.h"

#include <ATen/TensorOperators.h>

#include <cmath>
#include <limits>

namespace cpfeed {

GradientDifference CompareGradients(const torch::nn::Module& model,
                                    const torch::nn::Module& reference) {
  GradientDifference result;
  double most = 0;
  double apart = 0;  // Sums of squares.
  double size = 0;
  const auto others = reference.named_parameters();
  for (const auto& item : model.named_parameters()) {
    const at::Tensor expected = others[item.key()].grad().to(at::kDouble);
    const at::Tensor given = item.value().grad().to(at::kDouble);
    const double own = (given - expected).square().sum().item<double>();
    apart += own;
    size += expected.square().sum().item<double>();
    if (own > most) {
      most = own;
      result.parameter = item.key();
    }
  }
  result.relative = apart == 0 ? 0 : std::sqrt(apart / size);
  if (std::isnan(result.relative)) {
    result.relative = std::numeric_limits<double>::infinity();
  }
  return result;
}

}  // namespace cpfeed

// How far the gradients of two models are apart.

#ifndef CPFEED_CLIENT_WORKER_MODEL_MODEL_DIFFERENCE_H_
#define CPFEED_CLIENT_WORKER_MODEL_MODEL_DIFFERENCE_H_

#include <torch/csrc/api/include/torch/nn/module.h>

#include <string>

namespace cpfeed {

struct GradientDifference {
  double relative = 0;
  std::string parameter;  // That has most of it; empty where nothing differs.
};

// |a - b| / |b| over all parameters together, where a is the gradient of
// `model` and b that of `reference`; infinite for a NaN. Both are of one shape
// and have gradients.
GradientDifference CompareGradients(const torch::nn::Module& model,
                                    const torch::nn::Module& reference);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_MODEL_MODEL_DIFFERENCE_H_

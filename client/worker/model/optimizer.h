// Gradient descent on a model's parameters.

#ifndef CPFEED_CLIENT_WORKER_MODEL_OPTIMIZER_H_
#define CPFEED_CLIENT_WORKER_MODEL_OPTIMIZER_H_

#include <ATen/core/Tensor.h>

#include <vector>

namespace cpfeed {

// With momentum, and for each parameter tensor a step of one size: the root of
// its mean square is the learning rate, whatever the gradient's is (You et al.,
// Large batch training of convolutional networks, 2017). So it needs no tuning
// by layer, and unlike Adam it does not blow up the rounding of gradients that
// are next to 0, which would drive two equal models apart.
class Optimizer {
 public:
  // The tensors are changed in place.
  Optimizer(std::vector<at::Tensor> parameters, double learning_rate);

  // Follows the gradients and sets them to 0.
  void Step();

 private:
  const std::vector<at::Tensor> parameters_;
  const double learning_rate_;
  std::vector<at::Tensor> momentum_;  // One for each parameter.
};

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_MODEL_OPTIMIZER_H_

// The part of a layer that sees one token at a time.

#ifndef CPFEED_CLIENT_WORKER_MODEL_MLP_H_
#define CPFEED_CLIENT_WORKER_MODEL_MLP_H_

#include <ATen/core/Tensor.h>
#include <torch/csrc/api/include/torch/nn/module.h>

#include <cstdint>

#include "client/worker/model/initializer.h"

namespace cpfeed {

class Mlp : public torch::nn::Module {
 public:
  Mlp(int64_t width, int64_t inner_width, Initializer& initializer);

  // down(silu(gate(x)) * up(x)), x [rows, width].
  at::Tensor operator()(const at::Tensor& x) const;

 private:
  at::Tensor gate_;  // [inner_width, width]
  at::Tensor up_;    // [inner_width, width]
  at::Tensor down_;  // [width, inner_width]
};

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_MODEL_MLP_H_

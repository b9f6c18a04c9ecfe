#include "client/worker/model/decoder_layer.h"

#include <ATen/TensorOperators.h>

#include "client/worker/model/linear_attention.h"
#include "client/worker/model/self_attention.h"

namespace cpfeed {

DecoderLayer::DecoderLayer(const DecoderShape& shape, bool is_linear,
                           Initializer& initializer)
    : is_linear_(is_linear),
      attention_norm_(register_module("attention_norm",
                                      std::make_shared<RmsNorm>(shape.width))),
      mlp_norm_(
          register_module("mlp_norm", std::make_shared<RmsNorm>(shape.width))),
      mlp_(register_module(
          "mlp",
          std::make_shared<Mlp>(shape.width, shape.mlp_width, initializer))) {
  if (is_linear) {
    attention_ = register_module(
        "linear_attn", std::make_shared<LinearAttention>(shape, initializer));
  } else {
    attention_ = register_module(
        "self_attn", std::make_shared<SelfAttention>(shape, initializer));
  }
}

std::string DecoderLayer::layer_type() const {
  return is_linear_ ? "linear_attention" : "full_attention";
}

at::Tensor DecoderLayer::Forward(const at::Tensor& x,
                                 const CallArguments& arguments) {
  const at::Tensor attended =
      x + (*attention_)((*attention_norm_)(x), arguments);
  return attended + (*mlp_)((*mlp_norm_)(attended));
}

}  // namespace cpfeed

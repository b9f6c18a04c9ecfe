#include "client/worker/dense_delta.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/conv1d.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <vector>

namespace cpfeed {
namespace {

// SiLU of the depthwise convolution, [tokens, columns]; before the document
// there are zeros.
at::Tensor Convolved(const at::Tensor& x, const at::Tensor& weight) {
  const int64_t tokens = x.size(0);
  const int64_t columns = x.size(1);
  const at::Tensor padded =
      at::conv1d(x.t().unsqueeze(0), weight.unsqueeze(1), {}, /*stride=*/1,
                 /*padding=*/weight.size(1) - 1, /*dilation=*/1, columns);
  return at::silu(padded.squeeze(0).narrow(1, 0, tokens).t());
}

// Each head as often as value heads read it, [tokens, value_heads, K].
at::Tensor Keys(at::Tensor heads, const GatedDeltaOptions& options) {
  if (options.qk_l2norm) {
    heads = heads * at::rsqrt((heads * heads).sum(-1, true) + 1e-6);
  }
  return heads.repeat_interleave(options.value_heads / options.key_heads, 1);
}

}  // namespace

DenseDelta DenseDeltaRule(const DeltaInputs& inputs,
                          const GatedDeltaOptions& options) {
  const at::Tensor q = Keys(inputs.q, options) * options.scale;
  const at::Tensor k = Keys(inputs.k, options);
  const at::Tensor decay = at::exp(inputs.g);
  at::Tensor state =
      at::zeros({options.value_heads, options.key_dim, options.value_dim},
                inputs.v.options());
  std::vector<at::Tensor> out;
  for (int64_t t = 0; t < q.size(0); ++t) {
    const at::Tensor key = k[t].unsqueeze(2);  // [value_heads, K, 1]
    const at::Tensor decayed = state * decay[t].reshape({-1, 1, 1});
    const at::Tensor read = at::matmul(key.transpose(1, 2), decayed);
    const at::Tensor delta =
        inputs.beta[t].reshape({-1, 1, 1}) * (inputs.v[t].unsqueeze(1) - read);
    state = decayed + at::matmul(key, delta);
    out.push_back(at::matmul(q[t].unsqueeze(1), state).squeeze(1));
  }
  return {.out = at::stack(out), .final_state = state};
}

DenseDelta DenseGatedDelta(const GatedDeltaInputs& inputs,
                           const GatedDeltaOptions& options) {
  const at::Tensor conv = Convolved(inputs.mixed_qkv, inputs.conv_weight);
  const int64_t tokens = conv.size(0);
  const auto heads = [&](int64_t begin, int64_t count, int64_t columns) {
    return conv.narrow(1, begin, count * columns)
        .reshape({tokens, count, columns});
  };
  const int64_t keys = options.key_heads * options.key_dim;
  const at::Tensor g =
      -at::exp(inputs.a_log) * at::softplus(inputs.a + inputs.dt_bias);
  const at::Tensor beta = at::sigmoid(inputs.b);
  DenseDelta result = DenseDeltaRule(
      {.q = heads(0, options.key_heads, options.key_dim),
       .k = heads(keys, options.key_heads, options.key_dim),
       .v = heads(2 * keys, options.value_heads, options.value_dim),
       .g = g,
       .beta = beta},
      options);
  result.conv_out = conv;
  result.g = g;
  result.beta = beta;
  return result;
}

}  // namespace cpfeed

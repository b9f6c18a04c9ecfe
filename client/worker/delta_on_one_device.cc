#include "client/worker/delta_on_one_device.h"

#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "client/worker/dense_delta.h"
#include "client/worker/stream_rows.h"

namespace cpfeed {
namespace {

using Tensors = std::map<std::string, at::Tensor>;

// The inputs of one document, or of none where it has no tokens.
DenseDelta RunDocument(const DeltaCase& input, const Tensors& leaves,
                       int64_t begin, int64_t tokens) {
  const auto rows = [&](const char* name) {
    return leaves.at(name).narrow(0, begin, tokens);
  };
  if (!input.has_conv()) {
    return DenseDeltaRule(
        {rows("q"), rows("k"), rows("v"), rows("g"), rows("beta")},
        input.options);
  }
  return DenseGatedDelta(
      {rows("mixed_qkv"), leaves.at("conv_weight"), rows("a"), rows("b"),
       leaves.at("A_log"), leaves.at("dt_bias")},
      input.options);
}

// Zeros of the stream's rows, or of as many as there are sequences.
NumberArray Zeros(std::vector<int64_t> shape) {
  int64_t size = 1;
  for (const int64_t axis : shape) size *= axis;
  return {.shape = std::move(shape), .values = std::vector<double>(size)};
}

void Put(const at::Tensor& rows, int64_t begin, NumberArray& array) {
  ViewOf(array.values, array.shape)
      .narrow(0, begin, rows.size(0))
      .copy_(rows.detach());
}

OneDeviceDelta EmptyResult(const DeltaCase& input) {
  const GatedDeltaOptions& options = input.options;
  const int64_t rows = input.num_rows();
  OneDeviceDelta result;
  result.out["out"] = Zeros({rows, options.value_heads, options.value_dim});
  result.out["final_state"] =
      Zeros({input.lengths.num_sequences(), options.value_heads,
             options.key_dim, options.value_dim});
  if (input.has_conv()) {
    result.out["conv_out"] = Zeros(input.in.at("mixed_qkv").shape);
    result.out["g"] = Zeros({rows, options.value_heads});
    result.out["beta"] = Zeros({rows, options.value_heads});
  }
  return result;
}

}  // namespace

OneDeviceDelta DeltaOnOneDevice(const DeltaCase& input) {
  Tensors leaves;
  for (const auto& [name, array] : input.in) {
    leaves[name] =
        ViewOf(array.values, array.shape).clone().requires_grad_(true);
  }
  OneDeviceDelta result = EmptyResult(input);
  const bool with_grad = !input.dout.values.empty();
  int64_t begin = 0;
  for (int64_t s = 0; s < input.lengths.num_sequences(); ++s) {
    const int64_t tokens = input.lengths.real[s];
    if (tokens > 0) {
      const DenseDelta document = RunDocument(input, leaves, begin, tokens);
      Put(document.out, begin, result.out["out"]);
      Put(document.final_state.unsqueeze(0), s, result.out["final_state"]);
      if (input.has_conv()) {
        Put(document.conv_out, begin, result.out["conv_out"]);
        Put(document.g, begin, result.out["g"]);
        Put(document.beta, begin, result.out["beta"]);
      }
      if (with_grad) {
        torch::autograd::backward({document.out},
                                  {ViewOf(input.dout.values, input.dout.shape)
                                       .narrow(0, begin, tokens)});
      }
    }
    begin += input.lengths.padded[s];
  }
  if (!with_grad) return result;
  for (const auto& [name, leaf] : leaves) {
    NumberArray gradient = Zeros(input.in.at(name).shape);
    if (leaf.grad().defined()) Put(leaf.grad(), 0, gradient);
    result.grad[name] = std::move(gradient);
  }
  return result;
}

}  // namespace cpfeed

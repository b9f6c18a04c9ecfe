#include "client/worker/model/linear_attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "client/worker/dense_delta.h"
#include "core/base/error.h"
#include "core/base/status_exception.h"
#include "core/context/packed_context.h"

namespace cpfeed {
namespace {

GatedDeltaOptions OptionsOf(const DecoderShape& shape) {
  return {.key_heads = shape.delta_key_heads,
          .value_heads = shape.delta_value_heads,
          .key_dim = shape.delta_head_dim,
          .value_dim = shape.delta_head_dim,
          .scale = 1.0 / std::sqrt(static_cast<double>(shape.delta_head_dim))};
}

void CheckPositions(const std::optional<at::Tensor>& positions, int64_t rows) {
  if (positions && positions->dim() == 1 && positions->size(0) == rows) return;
  throw StatusException(InvalidArgument(
      kShapeMismatch,
      absl::StrCat("linear attention was handed ",
                   positions ? positions->numel() : 0, " positions for ", rows,
                   " rows; must be as many")));
}

at::Tensor Delta(const GatedDeltaInputs& inputs,
                 const GatedDeltaOptions& options) {
  const auto group = PackedPartGroup();
  if (group == nullptr) return DenseGatedDelta(inputs, options).out;
  auto output = GatedDelta(inputs, options, group);
  if (!output.ok()) throw StatusException(output.status());
  return std::move(output->out);
}

}  // namespace

LinearAttention::LinearAttention(const DecoderShape& shape,
                                 Initializer& initializer)
    : options_(OptionsOf(shape)) {
  const int64_t heads = options_.value_heads;
  const int64_t values = heads * options_.value_dim;
  const int64_t columns = 2 * options_.key_heads * options_.key_dim + values;
  const auto map = [&](const char* name, int64_t rows_out, int64_t rows_in) {
    return register_parameter(name, initializer.Map(rows_out, rows_in));
  };
  mixed_ = map("mixed", columns, shape.width);
  gate_ = map("gate", values, shape.width);
  a_ = map("a", heads, shape.width);
  b_ = map("b", heads, shape.width);
  conv_ = map("conv", columns, shape.conv_width);
  a_log_ = register_parameter("a_log", at::zeros({heads}));
  dt_bias_ = register_parameter("dt_bias", at::zeros({heads}));
  output_ = map("output", shape.width, values);
  // Where no key before a query is like it the output is next to 0. What is
  // left of it is rounding, which a smaller epsilon would blow up.
  norm_ = register_module("norm",
                          std::make_shared<RmsNorm>(values, /*epsilon=*/1e-2));
}

at::Tensor LinearAttention::Forward(const at::Tensor& x, const CallArguments&) {
  CheckPositions(TakePositions(), x.size(0));
  const at::Tensor out = Delta({.mixed_qkv = at::linear(x, mixed_),
                                .conv_weight = conv_,
                                .a = at::linear(x, a_),
                                .b = at::linear(x, b_),
                                .a_log = a_log_,
                                .dt_bias = dt_bias_},
                               options_);
  const at::Tensor rows = out.reshape({x.size(0), gate_.size(0)});
  return at::linear((*norm_)(rows)*at::silu(at::linear(x, gate_)), output_);
}

}  // namespace cpfeed

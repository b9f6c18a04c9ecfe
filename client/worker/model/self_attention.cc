#include "client/worker/model/self_attention.h"

#include <ATen/ops/linear.h>

#include "core/attention/rope.h"
#include "core/base/error.h"
#include "core/base/status_exception.h"
#include "core/context/sdpa.h"

namespace cpfeed {
namespace {

at::Tensor PositionsOf(const CallArguments& arguments) {
  const auto found = arguments.tensors.find("position_ids");
  if (found != arguments.tensors.end() && found->second) return *found->second;
  throw StatusException(InvalidArgument(
      kBadOption, "position_ids are missing; attention needs them"));
}

bool IsCausal(const CallArguments& arguments) {
  const auto mask = arguments.tensors.find("attention_mask");
  if (mask != arguments.tensors.end() && mask->second) {
    throw StatusException(
        MakeError(absl::StatusCode::kUnimplemented, kNotSupported,
                  "attention_mask is given; must be left out, as documents "
                  "decide who sees whom"));
  }
  return arguments.is_causal.value_or(true);
}

at::Tensor Turned(const at::Tensor& heads, const at::Tensor& positions) {
  auto turned = ApplyRope(heads, positions);
  if (!turned.ok()) throw StatusException(turned.status());
  return *std::move(turned);
}

// [rows, heads, head_dim] to [1, heads, rows, head_dim].
at::Tensor AsRow(const at::Tensor& heads) {
  return heads.transpose(0, 1).unsqueeze(0);
}

}  // namespace

SelfAttention::SelfAttention(const DecoderShape& shape,
                             Initializer& initializer)
    : shape_(shape) {
  const int64_t columns = shape.num_heads * shape.head_dim;
  const int64_t kv_columns = shape.num_kv_heads * shape.head_dim;
  query_ = register_parameter("query", initializer.Map(columns, shape.width));
  key_ = register_parameter("key", initializer.Map(kv_columns, shape.width));
  value_ =
      register_parameter("value", initializer.Map(kv_columns, shape.width));
  output_ = register_parameter("output", initializer.Map(shape.width, columns));
}

at::Tensor SelfAttention::Project(const at::Tensor& x,
                                  const at::Tensor& weight) const {
  return at::linear(x, weight).reshape(
      {x.size(0), weight.size(0) / shape_.head_dim, shape_.head_dim});
}

at::Tensor SelfAttention::Forward(const at::Tensor& x,
                                  const CallArguments& arguments) {
  const at::Tensor positions = PositionsOf(arguments);
  const at::Tensor attended =
      ScaledDotProductAttention(AsRow(Turned(Project(x, query_), positions)),
                                AsRow(Turned(Project(x, key_), positions)),
                                AsRow(Project(x, value_)), IsCausal(arguments));
  return at::linear(attended.squeeze(0).transpose(0, 1).reshape(
                        {x.size(0), shape_.num_heads * shape_.head_dim}),
                    output_);
}

}  // namespace cpfeed

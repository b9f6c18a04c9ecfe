#include "core/linear_attention/gated_delta.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softplus.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/error.h"
#include "core/base/status_exception.h"
#include "core/base/status_macros.h"
#include "core/linear_attention/causal_conv.h"
#include "core/linear_attention/part_rows.h"

namespace cpfeed {
namespace {

constexpr double kNormEpsilon = 1e-6;

at::Tensor L2Norm(const at::Tensor& x) {
  return x * at::rsqrt((x * x).sum(-1, /*keepdim=*/true) + kNormEpsilon);
}

at::ScalarType ComputeType(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// [rows, heads, columns] of columns [begin, begin + heads * columns).
at::Tensor Heads(const at::Tensor& rows, int64_t begin, int64_t heads,
                 int64_t columns) {
  return rows.narrow(1, begin, heads * columns)
      .reshape({rows.size(0), heads, columns});
}

DeltaOutput RunRule(DeltaInputs part, double scale, bool qk_l2norm,
                    const std::shared_ptr<const PartGroup>& group,
                    bool with_final_states) {
  if (qk_l2norm) {
    part.q = L2Norm(part.q);
    part.k = L2Norm(part.k);
  }
  part.q = part.q * scale;
  return DeltaRule(part, group, with_final_states);
}

absl::Status CheckShape(const char* name, const at::Tensor& tensor,
                        const std::vector<int64_t>& shape) {
  if (tensor.sizes() == c10::IntArrayRef(shape)) return absl::OkStatus();
  return InvalidArgument(
      kShapeMismatch,
      absl::StrCat(name, " has shape [", absl::StrJoin(tensor.sizes(), ", "),
                   "]; must be [", absl::StrJoin(shape, ", "), "]"));
}

absl::Status Check(const GatedDeltaInputs& in, const GatedDeltaOptions& options,
                   const PartGroup& group) {
  if (options.key_heads < 1 || options.key_dim < 1 || options.value_dim < 1 ||
      options.value_heads < 1 || options.value_heads % options.key_heads != 0) {
    return InvalidArgument(
        kNotDivisible,
        absl::StrCat("value_heads is ", options.value_heads,
                     "; must be a multiple of key_heads = ", options.key_heads,
                     ", with key_dim and value_dim of at least 1"));
  }
  const int64_t rows = group.plan->ranks[group.communicator->rank()].num_tokens;
  const int64_t columns = 2 * options.key_heads * options.key_dim +
                          options.value_heads * options.value_dim;
  CF_RETURN_IF_ERROR(CheckShape("mixed_qkv", in.mixed_qkv, {rows, columns}));
  if (in.conv_weight.dim() != 2 || in.conv_weight.size(1) < 1) {
    return InvalidArgument(kShapeMismatch,
                           "conv_weight must be [columns, width]");
  }
  CF_RETURN_IF_ERROR(CheckShape("conv_weight", in.conv_weight,
                                {columns, in.conv_weight.size(1)}));
  CF_RETURN_IF_ERROR(CheckShape("a", in.a, {rows, options.value_heads}));
  CF_RETURN_IF_ERROR(CheckShape("b", in.b, {rows, options.value_heads}));
  CF_RETURN_IF_ERROR(CheckShape("a_log", in.a_log, {options.value_heads}));
  return CheckShape("dt_bias", in.dt_bias, {options.value_heads});
}

GatedDeltaOutput Run(const GatedDeltaInputs& in,
                     const GatedDeltaOptions& options,
                     const std::shared_ptr<const PartGroup>& group,
                     bool with_details) {
  const at::ScalarType given = in.mixed_qkv.scalar_type();
  const at::ScalarType type = ComputeType(in.mixed_qkv);
  const int64_t columns = in.mixed_qkv.size(1);
  const int64_t heads = options.value_heads;
  // One exchange for all that has rows.
  const at::Tensor rows = ShardToPart(
      at::cat({in.mixed_qkv, in.a.to(given), in.b.to(given)}, 1), group);
  const at::Tensor conv = at::silu(CausalConv(
      rows.narrow(1, 0, columns).to(type), in.conv_weight.to(type), group));
  const at::Tensor a = rows.narrow(1, columns, heads).to(type);
  const at::Tensor b = rows.narrow(1, columns + heads, heads).to(type);
  const at::Tensor g =
      -at::exp(in.a_log.to(type)) * at::softplus(a + in.dt_bias.to(type));
  const at::Tensor beta = at::sigmoid(b);
  const int64_t keys = options.key_heads * options.key_dim;
  const DeltaOutput output =
      RunRule({.q = Heads(conv, 0, options.key_heads, options.key_dim),
               .k = Heads(conv, keys, options.key_heads, options.key_dim),
               .v = Heads(conv, 2 * keys, heads, options.value_dim),
               .g = g,
               .beta = beta},
              options.scale, options.qk_l2norm, group, with_details);
  GatedDeltaOutput result{.out = PartToShard(output.out.to(given), group),
                          .final_states = output.final_states};
  if (with_details) {
    result.conv_out = PartToShard(conv.detach().to(given), group);
    result.g = PartToShard(g.detach(), group);
    result.beta = PartToShard(beta.detach(), group);
  }
  return result;
}

// The recurrence has a kernel for the CPU alone. Copies are differentiable:
// gradients go back to where the inputs are.
GatedDeltaInputs OnCpu(const GatedDeltaInputs& in) {
  return {.mixed_qkv = in.mixed_qkv.cpu(),
          .conv_weight = in.conv_weight.cpu(),
          .a = in.a.cpu(),
          .b = in.b.cpu(),
          .a_log = in.a_log.cpu(),
          .dt_bias = in.dt_bias.cpu()};
}

void MoveTo(at::Device device, GatedDeltaOutput& output) {
  for (at::Tensor* tensor : {&output.out, &output.final_states,
                             &output.conv_out, &output.g, &output.beta}) {
    if (tensor->defined()) *tensor = tensor->to(device);
  }
}

}  // namespace

absl::StatusOr<GatedDeltaOutput> GatedDelta(
    const GatedDeltaInputs& inputs, const GatedDeltaOptions& options,
    const std::shared_ptr<const PartGroup>& group, bool with_details) {
  CF_RETURN_IF_ERROR(Check(inputs, options, *group));
  try {
    GatedDeltaOutput output = Run(OnCpu(inputs), options, group, with_details);
    MoveTo(inputs.mixed_qkv.device(), output);
    return output;
  } catch (const StatusException& error) {
    return error.status();
  }
}

absl::StatusOr<DeltaOutput> ShardedDeltaRule(
    const DeltaInputs& inputs, double scale, bool qk_l2norm,
    const std::shared_ptr<const PartGroup>& group, bool with_final_states) {
  const at::ScalarType given = inputs.v.scalar_type();
  const at::ScalarType type = ComputeType(inputs.v);
  const auto to_part = [&](const at::Tensor& rows) {
    return ShardToPart(rows.cpu(), group).to(type);
  };
  try {
    DeltaOutput output = RunRule({.q = to_part(inputs.q),
                                  .k = to_part(inputs.k),
                                  .v = to_part(inputs.v),
                                  .g = to_part(inputs.g),
                                  .beta = to_part(inputs.beta)},
                                 scale, qk_l2norm, group, with_final_states);
    const at::Device device = inputs.v.device();
    output.out = PartToShard(output.out.to(given), group).to(device);
    if (with_final_states) output.final_states = output.final_states.to(device);
    return output;
  } catch (const StatusException& error) {
    return error.status();
  }
}

}  // namespace cpfeed

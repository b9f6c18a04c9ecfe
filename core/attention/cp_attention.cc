#include "core/attention/cp_attention.h"

#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include <cmath>
#include <exception>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/attention/flash_kernel.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/tensor/shape.h"

namespace cpfeed {
namespace {

std::string SizesOf(const at::Tensor& tensor) {
  return ShapeString(
      absl::MakeConstSpan(tensor.sizes().data(), tensor.sizes().size()));
}

absl::Status CheckShapes(const AttentionInputs& in, int64_t rows) {
  const auto wrong = [&](absl::string_view name, const at::Tensor& tensor,
                         absl::string_view rule) {
    return InvalidArgument(
        kShapeMismatch,
        absl::StrCat(name, " is ", SizesOf(tensor), "; must be ", rule));
  };
  if (in.q.dim() != 3) return wrong("q", in.q, "[rows, heads, head_dim]");
  if (in.k.dim() != 3) return wrong("k", in.k, "[rows, kv_heads, head_dim]");
  if (in.v.dim() != 3) return wrong("v", in.v, "[rows, kv_heads, value_dim]");
  for (const auto& [name, tensor] :
       {std::pair("q", in.q), std::pair("k", in.k), std::pair("v", in.v)}) {
    if (tensor.size(0) != rows) {
      return wrong(name, tensor,
                   absl::StrCat("of the plan's ", rows, " local rows"));
    }
    if (tensor.size(1) == 0 || tensor.size(2) == 0) {
      return wrong(name, tensor, "of at least one head and column");
    }
  }
  if (in.k.size(2) != in.q.size(2)) {
    return wrong("k", in.k, absl::StrCat("of q's head_dim ", in.q.size(2)));
  }
  if (in.v.size(1) != in.k.size(1)) {
    return wrong("v", in.v, absl::StrCat("of k's ", in.k.size(1), " heads"));
  }
  if (in.q.size(1) % in.k.size(1) != 0) {
    return wrong("q", in.q,
                 absl::StrCat("of a multiple of k's ", in.k.size(1), " heads"));
  }
  return absl::OkStatus();
}

absl::Status CheckTypes(const AttentionInputs& in) {
  const at::ScalarType dtype = in.q.scalar_type();
  for (const auto& [name, tensor] :
       {std::pair("k", in.k), std::pair("v", in.v)}) {
    if (tensor.scalar_type() != dtype) {
      return InvalidArgument(
          kShapeMismatch,
          absl::StrCat(name, " is ", c10::toString(tensor.scalar_type()),
                       "; must be q's ", c10::toString(dtype)));
    }
  }
  const bool on_gpu = in.q.is_cuda();
  if (dtype != at::kDouble && dtype != at::kFloat && dtype != at::kBFloat16 &&
      !(dtype == at::kHalf && on_gpu)) {
    return MakeError(absl::StatusCode::kUnimplemented, kNotSupported,
                     absl::StrCat("dtype is ", c10::toString(dtype),
                                  "; must be float64, float32 or bfloat16, on "
                                  "a GPU float16 too"));
  }
  if ((!in.q.is_cpu() && !on_gpu) || in.k.device() != in.q.device() ||
      in.v.device() != in.q.device()) {
    return MakeError(absl::StatusCode::kUnimplemented, kNotSupported,
                     "q, k and v must be on the CPU, or on one GPU");
  }
  return absl::OkStatus();
}

absl::Status CheckOutputs(const AttentionInputs& in,
                          const AttentionOutput& output,
                          const at::Tensor& dout) {
  const auto check = [](absl::string_view name, const at::Tensor& tensor,
                        c10::IntArrayRef sizes, at::ScalarType dtype) {
    if (tensor.sizes() == sizes && tensor.scalar_type() == dtype) {
      return absl::OkStatus();
    }
    return InvalidArgument(
        kShapeMismatch,
        absl::StrCat(
            name, " is ", c10::toString(tensor.scalar_type()), " ",
            SizesOf(tensor), "; must be ", c10::toString(dtype), " ",
            ShapeString(absl::MakeConstSpan(sizes.data(), sizes.size()))));
  };
  const at::ScalarType dtype = in.q.scalar_type();
  const int64_t out_sizes[] = {in.q.size(0), in.q.size(1), in.v.size(2)};
  const int64_t lse_sizes[] = {in.q.size(0), in.q.size(1)};
  CF_RETURN_IF_ERROR(check("out", output.out, out_sizes, dtype));
  CF_RETURN_IF_ERROR(
      check("lse", output.lse, lse_sizes, AccumulatorType(dtype)));
  return check("dout", dout, out_sizes, dtype);
}

absl::Status CheckCall(const KvExchange& exchange,
                       const AttentionInputs& inputs, const ShardPlan& plan,
                       const Communicator& group) {
  CF_RETURN_IF_ERROR(ValidateAttention(inputs, plan, group));
  if (group.size() == 1) return absl::OkStatus();
  return exchange.CheckSupport(plan, inputs.mask,
                               {inputs.q.size(1), inputs.k.size(1)});
}

AttentionInputs Contiguous(AttentionInputs inputs) {
  inputs.q = inputs.q.contiguous();
  inputs.k = inputs.k.contiguous();
  inputs.v = inputs.v.contiguous();
  return inputs;
}

// Runs `call` and turns what LibTorch throws into a status.
template <class Result, class Call>
absl::StatusOr<Result> Guarded(const KvExchange& exchange, Call call) {
  try {
    return call();
  } catch (const c10::Error& error) {
    return absl::InternalError(
        absl::StrCat(exchange.name(), ": ", error.what_without_backtrace()));
  } catch (const std::exception& error) {
    return absl::InternalError(
        absl::StrCat(exchange.name(), ": ", error.what()));
  }
}

}  // namespace

absl::Status ValidateAttention(const AttentionInputs& inputs,
                               const ShardPlan& plan,
                               const Communicator& group) {
  if (plan.cp_size != group.size()) {
    return InvalidArgument(
        kTopologyMismatch,
        absl::StrCat("plan is for cp_size ", plan.cp_size, "; the group has ",
                     group.size(), " ranks"));
  }
  CF_RETURN_IF_ERROR(CheckShapes(inputs, plan.ranks[group.rank()].num_tokens));
  CF_RETURN_IF_ERROR(CheckTypes(inputs));
  if (!std::isfinite(inputs.scale)) {
    return InvalidArgument(kBadOption, absl::StrCat("scale is ", inputs.scale,
                                                    "; must be finite"));
  }
  return ValidateMask(inputs.mask);
}

absl::StatusOr<AttentionOutput> ContextParallelAttention(
    const KvExchange& exchange, const AttentionInputs& inputs,
    const ShardPlan& plan, Communicator& group) {
  CF_RETURN_IF_ERROR(CheckCall(exchange, inputs, plan, group));
  return Guarded<AttentionOutput>(exchange, [&] {
    return exchange.Forward(Contiguous(inputs), plan, group);
  });
}

absl::StatusOr<AttentionGrads> ContextParallelAttentionBackward(
    const KvExchange& exchange, const AttentionInputs& inputs,
    const AttentionOutput& output, const at::Tensor& dout,
    const ShardPlan& plan, Communicator& group) {
  CF_RETURN_IF_ERROR(CheckCall(exchange, inputs, plan, group));
  CF_RETURN_IF_ERROR(CheckOutputs(inputs, output, dout));
  const at::ScalarType dtype = inputs.q.scalar_type();
  return Guarded<AttentionGrads>(
      exchange, [&]() -> absl::StatusOr<AttentionGrads> {
        CF_ASSIGN_OR_RETURN(const AttentionGrads grads,
                            exchange.Backward(Contiguous(inputs),
                                              {output.out.contiguous(),
                                               output.lse.contiguous()},
                                              dout.contiguous(), plan, group));
        return AttentionGrads{grads.dq.to(dtype), grads.dk.to(dtype),
                              grads.dv.to(dtype)};
      });
}

}  // namespace cpfeed

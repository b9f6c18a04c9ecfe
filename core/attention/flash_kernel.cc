#include "core/attention/flash_kernel.h"

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/constant_pad_nd.h>

#include <algorithm>

#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

// The kernel wants heads before rows, and one head dimension for k and v. Zeros
// behind q and k leave the scores as they are; zeros behind v add columns that
// are cut off.
at::Tensor ForKernel(const at::Tensor& tensor, int64_t columns) {
  const int64_t missing = columns - tensor.size(-1);
  return (missing == 0 ? tensor : at::constant_pad_nd(tensor, {0, missing}))
      .transpose(1, 2);
}

at::Tensor FromKernel(const at::Tensor& tensor, int64_t columns) {
  return tensor.transpose(1, 2).narrow(-1, 0, columns);
}

int64_t Columns(const FlashInputs& in) {
  CF_CHECK(in.q.numel() > 0 && in.k.numel() > 0 && in.v.numel() > 0);
  return std::max(in.q.size(-1), in.v.size(-1));
}

bool HasBfloat16Instructions() {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

}  // namespace

at::ScalarType AccumulatorType(at::ScalarType input) {
  return input == at::kDouble ? at::kDouble : at::kFloat;
}

FlashResult FlashForward(const FlashInputs& in) {
  const int64_t columns = Columns(in);
  const auto [out, lse] = at::_scaled_dot_product_flash_attention_for_cpu(
      ForKernel(in.q, columns), ForKernel(in.k, columns),
      ForKernel(in.v, columns), /*dropout_p=*/0.0, in.causal, in.mask,
      in.scale);
  return {FromKernel(out, in.v.size(-1))
              .to(AccumulatorType(in.q.scalar_type()))
              .contiguous(),
          lse.transpose(1, 2).contiguous()};
}

FlashGrads FlashBackward(const FlashInputs& in, const at::Tensor& out,
                         const at::Tensor& lse, const at::Tensor& dout) {
  const int64_t columns = Columns(in);
  const auto [dq, dk, dv] =
      at::_scaled_dot_product_flash_attention_for_cpu_backward(
          ForKernel(dout, columns), ForKernel(in.q, columns),
          ForKernel(in.k, columns), ForKernel(in.v, columns),
          ForKernel(out, columns), lse.transpose(1, 2), /*dropout_p=*/0.0,
          in.causal, in.mask, in.scale);
  return {FromKernel(dq, in.q.size(-1)), FromKernel(dk, in.k.size(-1)),
          FromKernel(dv, in.v.size(-1))};
}

at::ScalarType FastBackwardType(at::ScalarType input) {
  static const bool kHasBfloat16 = HasBfloat16Instructions();
  return input == at::kBFloat16 && !kHasBfloat16 ? at::kFloat : input;
}

}  // namespace cpfeed

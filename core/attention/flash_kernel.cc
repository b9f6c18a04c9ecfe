#include "core/attention/flash_kernel.h"

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/constant_pad_nd.h>

#include <algorithm>

#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

// The kernel wants one head dimension for k and v. Zeros behind q and k leave
// the scores as they are; zeros behind v add columns that are cut off.
at::Tensor WithColumns(const at::Tensor& tensor, int64_t columns) {
  const int64_t missing = columns - tensor.size(-1);
  return missing == 0 ? tensor : at::constant_pad_nd(tensor, {0, missing});
}

}  // namespace

at::ScalarType AccumulatorType(at::ScalarType input) {
  return input == at::kDouble ? at::kDouble : at::kFloat;
}

FlashResult FlashForward(const at::Tensor& q, const at::Tensor& k,
                         const at::Tensor& v, bool causal,
                         const std::optional<at::Tensor>& mask, double scale) {
  CF_CHECK(q.numel() > 0 && k.numel() > 0 && v.numel() > 0);
  const int64_t columns = std::max(q.size(-1), v.size(-1));
  const auto [out, lse] = at::_scaled_dot_product_flash_attention_for_cpu(
      WithColumns(q, columns).transpose(1, 2),
      WithColumns(k, columns).transpose(1, 2),
      WithColumns(v, columns).transpose(1, 2), /*dropout_p=*/0.0, causal, mask,
      scale);
  return {out.transpose(1, 2)
              .narrow(-1, 0, v.size(-1))
              .to(AccumulatorType(q.scalar_type()))
              .contiguous(),
          lse.transpose(1, 2).contiguous()};
}

}  // namespace cpfeed

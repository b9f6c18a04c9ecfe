// LibTorch's CPU flash attention behind one shape convention.

#ifndef CPFEED_CORE_ATTENTION_FLASH_KERNEL_H_
#define CPFEED_CORE_ATTENTION_FLASH_KERNEL_H_

#include <ATen/core/Tensor.h>

#include <optional>

namespace cpfeed {

// The dtype in which partial results are kept: float64 for float64 inputs,
// float32 for float32 and bfloat16.
at::ScalarType AccumulatorType(at::ScalarType input);

struct FlashResult {
  at::Tensor out;  // [batch, q_rows, num_heads, value_dim]
  at::Tensor lse;  // [batch, q_rows, num_heads], natural logarithm
};

// softmax(scale * q k^T + mask) v, for each batch entry.
//
//   q  [batch, q_rows, num_heads, head_dim]
//   k  [batch, k_rows, num_kv_heads, head_dim]
//   v  [batch, k_rows, num_kv_heads, value_dim]
//
// of one dtype, last axis contiguous; no axis is empty (the kernel divides by
// their sizes). `causal` needs q_rows == k_rows. `mask` [batch, 1, q_rows,
// k_rows] of the same dtype is added to the scores.
//
// Both results are contiguous and of AccumulatorType. A row whose mask is -inf
// throughout has lse 0, which is no value: the caller knows these rows.
FlashResult FlashForward(const at::Tensor& q, const at::Tensor& k,
                         const at::Tensor& v, bool causal,
                         const std::optional<at::Tensor>& mask, double scale);

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_FLASH_KERNEL_H_

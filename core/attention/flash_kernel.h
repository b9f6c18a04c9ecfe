// LibTorch's CPU flash attention behind one shape convention.

#ifndef CPFEED_CORE_ATTENTION_FLASH_KERNEL_H_
#define CPFEED_CORE_ATTENTION_FLASH_KERNEL_H_

#include <ATen/core/Tensor.h>

#include <optional>

namespace cpfeed {

// The dtype in which partial results are kept: float64 for float64 inputs,
// float32 for float32 and bfloat16.
at::ScalarType AccumulatorType(at::ScalarType input);

// One call of the kernel.
//
//   q  [batch, q_rows, num_heads, head_dim]
//   k  [batch, k_rows, num_kv_heads, head_dim]
//   v  [batch, k_rows, num_kv_heads, value_dim]
//
// of one dtype, last axis contiguous; no axis is empty (the kernel divides by
// their sizes). `causal` needs q_rows == k_rows. `mask` [batch, 1, q_rows,
// k_rows] of the same dtype is added to the scores.
struct FlashInputs {
  at::Tensor q;
  at::Tensor k;
  at::Tensor v;
  bool causal = false;
  std::optional<at::Tensor> mask;
  double scale = 1.0;
};

struct FlashResult {
  at::Tensor out;  // [batch, q_rows, num_heads, value_dim]
  at::Tensor lse;  // [batch, q_rows, num_heads], natural logarithm
};

// softmax(scale * q k^T + mask) v, for each batch entry.
//
// Both results are contiguous and of AccumulatorType. A row whose mask is -inf
// throughout has lse 0, which is no value: the caller knows these rows.
FlashResult FlashForward(const FlashInputs& in);

// Gradients, in the shapes and the dtype of q, k and v.
struct FlashGrads {
  at::Tensor dq;
  at::Tensor dk;
  at::Tensor dv;
};

// The gradients through these keys, where `out` [batch, q_rows, num_heads,
// value_dim] (q's dtype) and `lse` [batch, q_rows, num_heads] are the results
// over all keys that the queries see, and `dout` is the gradient of `out`:
//
//   p  = exp(scale * q k^T + mask - lse)
//   dv = p^T dout
//   ds = p * (dout v^T - rowsum(dout * out)) * scale
//   dq = ds k,  dk = ds^T q
//
// So the sums over blocks of keys are the gradients over all of them. `lse` is
// finite, also in rows that see none of these keys.
FlashGrads FlashBackward(const FlashInputs& in, const at::Tensor& out,
                         const at::Tensor& lse, const at::Tensor& dout);

// The dtype in which FlashBackward is fastest for these inputs: their own, but
// float32 for bfloat16 on a CPU without instructions for that, where the kernel
// takes some six times as long as in float32.
at::ScalarType FastBackwardType(at::ScalarType input);

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_FLASH_KERNEL_H_

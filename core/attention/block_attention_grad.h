// The backward pass of BlockAttention.

#ifndef CPFEED_CORE_ATTENTION_BLOCK_ATTENTION_GRAD_H_
#define CPFEED_CORE_ATTENTION_BLOCK_ATTENTION_GRAD_H_

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include "core/attention/tile_plan.h"

namespace cpfeed {

// Gradients of keys and values, summed up: float64 for float64 inputs, else
// float32.
struct KvGrad {
  at::Tensor dk;  // [rows, num_kv_heads, head_dim]
  at::Tensor dv;  // [rows, num_kv_heads, value_dim]

  // Zeros for `rows` rows shaped like those of `k` and `v`.
  static KvGrad Zeros(int64_t rows, const at::Tensor& k, const at::Tensor& v);
};

// Gradients for a fixed set of queries, while their keys come block by block
// once more. Blocks add up in the order of the calls: equal calls give equal
// bits.
class BlockAttentionGrad {
 public:
  // `q` as for BlockAttention; `out` (q's dtype) and `lse` are its results over
  // all blocks, and `dout` [rows, num_heads, value_dim] (q's dtype) the
  // gradient of `out`. All contiguous.
  BlockAttentionGrad(const at::Tensor& q, const at::Tensor& out,
                     const at::Tensor& lse, const at::Tensor& dout,
                     double scale);

  // Adds what flows through one block: to dq(), and to `grad`, whose rows are
  // those of `k` and `v`. Rows in no tile of the plan are neither read nor
  // changed.
  void Add(const TilePlan& plan, const at::Tensor& k, const at::Tensor& v,
           const KvGrad& grad);

  // [rows, num_heads, head_dim], of the type of KvGrad; 0 for rows in no tile.
  const at::Tensor& dq() const { return dq_; }

 private:
  const at::ScalarType type_;  // In which the kernel computes.
  const at::Tensor q_;         // This and the others are of it.
  const at::Tensor out_;
  const at::Tensor lse_;  // [rows, num_heads, 1]
  const at::Tensor dout_;
  const double scale_;
  at::Tensor dq_;
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_BLOCK_ATTENTION_GRAD_H_

// Dense attention over the tiles of a plan.

#ifndef CPFEED_CORE_ATTENTION_BLOCK_ATTENTION_H_
#define CPFEED_CORE_ATTENTION_BLOCK_ATTENTION_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/attention/tile_plan.h"

namespace cpfeed {

// Attention of a fixed set of queries over keys that arrive block by block.
// Blocks are merged in the order of the calls, so equal calls give equal bits.
class BlockAttention {
 public:
  // `q` [rows, num_heads, head_dim]: float64, float32 or bfloat16, on a GPU
  // float16 too, contiguous. The output has `value_dim` columns. `scale`
  // multiplies q . k.
  BlockAttention(at::Tensor q, int64_t value_dim, double scale);

  // Adds the keys of one block: `k` [key_rows, num_kv_heads, head_dim] and `v`
  // [key_rows, num_kv_heads, value_dim], contiguous and of q's dtype. Query
  // head h reads kv head h / (num_heads / num_kv_heads). The tiles' rows are
  // rows of q and of k; rows in no tile are not read, whatever they hold.
  void Add(const TilePlan& plan, const at::Tensor& k, const at::Tensor& v);

  // What has been added, [rows, num_heads, value_dim] in q's dtype; 0 for rows
  // that saw no key.
  at::Tensor Output() const;

  // Natural logarithm of the sum of the exponentials, [rows, num_heads]:
  // float64 for float64 inputs, else float32; -inf for rows that saw no key.
  const at::Tensor& lse() const { return lse_; }

 private:
  const at::Tensor q_;
  const double scale_;
  at::Tensor out_;  // As lse_, so that partial results lose nothing.
  at::Tensor lse_;
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_BLOCK_ATTENTION_H_

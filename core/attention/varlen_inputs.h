// What attention kernels over packed tiles are given, and what they give.

#ifndef CPFEED_CORE_ATTENTION_VARLEN_INPUTS_H_
#define CPFEED_CORE_ATTENTION_VARLEN_INPUTS_H_

#include <ATen/core/Tensor.h>

#include "core/attention/tile_plan.h"
#include "core/attention/varlen_batch.h"

namespace cpfeed {

// One call. Rows are packed as the batch says:
//
//   q  [num_q, num_heads, head_dim]
//   k  [num_k, num_kv_heads, head_dim]
//   v  [num_k, num_kv_heads, value_dim]
//
// of one dtype and device, last axis contiguous. `plan` has the bounds of
// bands.
struct VarlenInputs {
  const TilePlan& plan;
  const VarlenBatch& batch;
  at::Tensor q;
  at::Tensor k;
  at::Tensor v;
  double scale = 1.0;
};

struct VarlenResult {
  at::Tensor out;  // [num_q, num_heads, value_dim], any float type
  // [num_q, num_heads], any strides, of AccumulatorType; natural logarithm;
  // -inf or +inf where a row saw no key, and out is anything there.
  at::Tensor lse;
};

// Gradients, in any float type.
struct VarlenGrads {
  at::Tensor dq;
  at::Tensor dk;
  at::Tensor dv;
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_VARLEN_INPUTS_H_

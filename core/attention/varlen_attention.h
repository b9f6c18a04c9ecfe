// Attention over the tiles of a plan by kernels that take many tiles at once:
// how it is done on a GPU.

#ifndef CPFEED_CORE_ATTENTION_VARLEN_ATTENTION_H_
#define CPFEED_CORE_ATTENTION_VARLEN_ATTENTION_H_

#include <ATen/core/Tensor.h>

#include "core/attention/tile_plan.h"

namespace cpfeed {

// Merges attention of `q` over one block of keys into the running `out` and
// `lse`; shapes and meaning as in BlockAttention, for tensors of any device.
// The host does not wait for the device.
void AddVarlen(const TilePlan& plan, const at::Tensor& q, const at::Tensor& k,
               const at::Tensor& v, double scale, const at::Tensor& out,
               const at::Tensor& lse);

// What the gradients of a fixed set of queries need; see BlockAttentionGrad.
struct VarlenQueries {
  at::Tensor q;
  at::Tensor out;
  at::Tensor lse;  // [rows, num_heads]
  at::Tensor dout;
  double scale = 1.0;
};

// Adds what flows through one block of keys to dq, dk and dv, which are float32
// or float64.
void AddVarlenGrad(const TilePlan& plan, const VarlenQueries& queries,
                   const at::Tensor& k, const at::Tensor& v,
                   const at::Tensor& dq, const at::Tensor& dk,
                   const at::Tensor& dv);

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_VARLEN_ATTENTION_H_

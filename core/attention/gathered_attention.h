// Attention over rows of keys and values that were gathered from ranks.

#ifndef CPFEED_CORE_ATTENTION_GATHERED_ATTENTION_H_
#define CPFEED_CORE_ATTENTION_GATHERED_ATTENTION_H_

#include <ATen/core/Tensor.h>

#include <vector>

#include "absl/types/span.h"
#include "core/attention/block_attention_grad.h"
#include "core/attention/kv_exchange.h"
#include "core/attention/row_runs.h"

namespace cpfeed {

// Keys and values of some ranks behind each other.
struct GatheredKv {
  at::Tensor k;  // [rows, num_kv_heads, head_dim]
  at::Tensor v;  // [rows, num_kv_heads, value_dim]
};

// Attention of the rows of `queries` (those of inputs.q) over the gathered
// ones, which are the tokens of `buffers`. They are brought into stream order
// first, where a sequence that is whole is one piece.
AttentionOutput AttendGathered(const AttentionInputs& inputs,
                               absl::Span<const RowRun> queries,
                               absl::Span<const RowBuffer> buffers,
                               const GatheredKv& kv);

struct GatheredGrads {
  at::Tensor dq;  // Summed in float32, or float64 for float64.
  KvGrad kv;      // In the order of the buffers; 0 for padding.
};

// The gradients.
GatheredGrads GatheredBackward(const AttentionInputs& inputs,
                               const AttentionOutput& output,
                               const at::Tensor& dout,
                               absl::Span<const RowRun> queries,
                               absl::Span<const RowBuffer> buffers,
                               const GatheredKv& kv);

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_GATHERED_ATTENTION_H_

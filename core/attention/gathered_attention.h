// Attention over rows of keys and values that were gathered from ranks.

#ifndef CPFEED_CORE_ATTENTION_GATHERED_ATTENTION_H_
#define CPFEED_CORE_ATTENTION_GATHERED_ATTENTION_H_

#include <ATen/core/Tensor.h>

#include "absl/types/span.h"
#include "core/attention/attention_mask.h"
#include "core/attention/block_attention.h"
#include "core/attention/block_attention_grad.h"
#include "core/attention/row_runs.h"

namespace cpfeed {

// Keys and values of some ranks behind each other.
struct GatheredKv {
  at::Tensor k;  // [rows, num_kv_heads, head_dim]
  at::Tensor v;  // [rows, num_kv_heads, value_dim]
};

// Adds the gathered rows, which are the tokens of `buffers`, to the attention
// of `queries`. They are brought into stream order first, where a sequence that
// is whole is one piece.
void AddGathered(absl::Span<const RowRun> queries,
                 absl::Span<const RowBuffer> buffers, const GatheredKv& kv,
                 const AttentionMask& mask, BlockAttention& attention);

// The same for gradients. Returns those of the gathered rows, in the order of
// the buffers; 0 for padding.
KvGrad AddGatheredGrad(absl::Span<const RowRun> queries,
                       absl::Span<const RowBuffer> buffers,
                       const GatheredKv& kv, const AttentionMask& mask,
                       BlockAttentionGrad& attention);

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_GATHERED_ATTENTION_H_

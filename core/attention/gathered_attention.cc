#include "core/attention/gathered_attention.h"

#include <ATen/ops/index_select.h>

#include <cstdint>

#include "core/attention/index_tensor.h"
#include "core/attention/tile_plan.h"

namespace cpfeed {

void AddGathered(absl::Span<const RowRun> queries,
                 absl::Span<const RowBuffer> buffers, const GatheredKv& kv,
                 const AttentionMask& mask, BlockAttention& attention) {
  const StreamOrder order = OrderRows(buffers);
  const at::Tensor index = IndexTensor(order.source, kv.k.device());
  attention.Add(PlanTiles(queries, order.runs, mask),
                at::index_select(kv.k, 0, index),
                at::index_select(kv.v, 0, index));
}

KvGrad AddGatheredGrad(absl::Span<const RowRun> queries,
                       absl::Span<const RowBuffer> buffers,
                       const GatheredKv& kv, const AttentionMask& mask,
                       BlockAttentionGrad& attention) {
  const StreamOrder order = OrderRows(buffers);
  const at::Tensor index = IndexTensor(order.source, kv.k.device());
  const KvGrad ordered =
      KvGrad::Zeros(static_cast<int64_t>(order.source.size()), kv.k, kv.v);
  attention.Add(PlanTiles(queries, order.runs, mask),
                at::index_select(kv.k, 0, index),
                at::index_select(kv.v, 0, index), ordered);
  const KvGrad grad = KvGrad::Zeros(kv.k.size(0), kv.k, kv.v);
  grad.dk.index_copy_(0, index, ordered.dk);
  grad.dv.index_copy_(0, index, ordered.dv);
  return grad;
}

}  // namespace cpfeed

#include "core/attention/gathered_attention.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/index_select.h>

#include <cstdint>
#include <vector>

#include "core/attention/tile_plan.h"

namespace cpfeed {
namespace {

// The numbers as a tensor that lives no longer than they.
at::Tensor IndexOf(std::vector<int64_t>& numbers) {
  return at::from_blob(numbers.data(), {static_cast<int64_t>(numbers.size())},
                       at::kLong);
}

}  // namespace

void AddGathered(absl::Span<const RowRun> queries,
                 absl::Span<const RowBuffer> buffers, const GatheredKv& kv,
                 const AttentionMask& mask, BlockAttention& attention) {
  StreamOrder order = OrderRows(buffers);
  const at::Tensor index = IndexOf(order.source);
  attention.Add(PlanTiles(queries, order.runs, mask),
                at::index_select(kv.k, 0, index),
                at::index_select(kv.v, 0, index));
}

KvGrad AddGatheredGrad(absl::Span<const RowRun> queries,
                       absl::Span<const RowBuffer> buffers,
                       const GatheredKv& kv, const AttentionMask& mask,
                       BlockAttentionGrad& attention) {
  StreamOrder order = OrderRows(buffers);
  const at::Tensor index = IndexOf(order.source);
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

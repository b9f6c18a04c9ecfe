#include "core/attention/gathered_attention.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/index_select.h>

#include <cstdint>

#include "core/attention/block_attention.h"
#include "core/attention/tile_plan.h"

namespace cpfeed {
namespace {

// The numbers as a tensor that lives no longer than they.
at::Tensor IndexOf(std::vector<int64_t>& numbers) {
  return at::from_blob(numbers.data(), {static_cast<int64_t>(numbers.size())},
                       at::kLong);
}

}  // namespace

AttentionOutput AttendGathered(const AttentionInputs& inputs,
                               absl::Span<const RowRun> queries,
                               absl::Span<const RowBuffer> buffers,
                               const GatheredKv& kv) {
  StreamOrder order = OrderRows(buffers);
  const at::Tensor index = IndexOf(order.source);
  BlockAttention attention(inputs.q, inputs.v.size(2), inputs.scale);
  attention.Add(PlanTiles(queries, order.runs, inputs.mask),
                at::index_select(kv.k, 0, index),
                at::index_select(kv.v, 0, index));
  return {attention.Output(), attention.lse()};
}

GatheredGrads GatheredBackward(const AttentionInputs& inputs,
                               const AttentionOutput& output,
                               const at::Tensor& dout,
                               absl::Span<const RowRun> queries,
                               absl::Span<const RowBuffer> buffers,
                               const GatheredKv& kv) {
  StreamOrder order = OrderRows(buffers);
  const at::Tensor index = IndexOf(order.source);
  BlockAttentionGrad attention(inputs.q, output.out, output.lse, dout,
                               inputs.scale);
  const KvGrad ordered =
      KvGrad::Zeros(static_cast<int64_t>(order.source.size()), kv.k, kv.v);
  attention.Add(PlanTiles(queries, order.runs, inputs.mask),
                at::index_select(kv.k, 0, index),
                at::index_select(kv.v, 0, index), ordered);
  const KvGrad grad = KvGrad::Zeros(kv.k.size(0), kv.k, kv.v);
  grad.dk.index_copy_(0, index, ordered.dk);
  grad.dv.index_copy_(0, index, ordered.dv);
  return {attention.dq(), grad};
}

}  // namespace cpfeed

#include "core/attention/block_attention_grad.h"

#include <ATen/ops/zeros.h>

#include <utility>

#include "core/attention/flash_kernel.h"
#include "core/attention/tile_batch.h"
#include "core/attention/tile_tensors.h"

namespace cpfeed {

KvGrad KvGrad::Zeros(int64_t rows, const at::Tensor& k, const at::Tensor& v) {
  const auto options = k.options().dtype(AccumulatorType(k.scalar_type()));
  return {at::zeros({rows, k.size(1), k.size(2)}, options),
          at::zeros({rows, v.size(1), v.size(2)}, options)};
}

BlockAttentionGrad::BlockAttentionGrad(at::Tensor q, at::Tensor out,
                                       at::Tensor lse, at::Tensor dout,
                                       double scale)
    : q_(std::move(q)),
      out_(std::move(out)),
      lse_(lse.unsqueeze(-1)),
      dout_(std::move(dout)),
      scale_(scale),
      dq_(at::zeros(q_.sizes(),
                    q_.options().dtype(AccumulatorType(q_.scalar_type())))) {}

void BlockAttentionGrad::Add(const TilePlan& plan, const at::Tensor& k,
                             const at::Tensor& v, const KvGrad& grad) {
  for (const TileBatch& batch : BatchTiles(plan)) {
    const auto queries = [&](const at::Tensor& rows) {
      return GatherTiles(rows, batch, TileSide::kQueries);
    };
    const FlashGrads grads =
        FlashBackward({.q = queries(q_),
                       .k = GatherTiles(k, batch, TileSide::kKeys),
                       .v = GatherTiles(v, batch, TileSide::kKeys),
                       .causal = batch.kind == Tile::Kind::kCausal,
                       .mask = TileMask(plan, batch, q_.scalar_type()),
                       .scale = scale_},
                      queries(out_), queries(lse_).squeeze(-1), queries(dout_));
    AddTiles(grads.dq, batch, TileSide::kQueries, dq_);
    AddTiles(grads.dk, batch, TileSide::kKeys, grad.dk);
    AddTiles(grads.dv, batch, TileSide::kKeys, grad.dv);
  }
}

}  // namespace cpfeed

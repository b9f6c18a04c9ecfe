#include "core/attention/block_attention_grad.h"

#include <ATen/ops/zeros.h>

#include <vector>

#include "core/attention/flash_kernel.h"
#include "core/attention/tile_batch.h"
#include "core/attention/tile_tensors.h"
#include "core/attention/varlen_attention.h"

namespace cpfeed {

KvGrad KvGrad::Zeros(int64_t rows, const at::Tensor& k, const at::Tensor& v) {
  const auto options = k.options().dtype(AccumulatorType(k.scalar_type()));
  return {at::zeros({rows, k.size(1), k.size(2)}, options),
          at::zeros({rows, v.size(1), v.size(2)}, options)};
}

BlockAttentionGrad::BlockAttentionGrad(const at::Tensor& q,
                                       const at::Tensor& out,
                                       const at::Tensor& lse,
                                       const at::Tensor& dout, double scale)
    : type_(q.is_cuda() ? q.scalar_type() : FastBackwardType(q.scalar_type())),
      q_(q.to(type_)),
      out_(out.to(type_)),
      lse_(lse.unsqueeze(-1)),
      dout_(dout.to(type_)),
      scale_(scale),
      dq_(at::zeros(q.sizes(),
                    q.options().dtype(AccumulatorType(q.scalar_type())))) {}

void BlockAttentionGrad::Add(const TilePlan& plan, const at::Tensor& k,
                             const at::Tensor& v, const KvGrad& grad) {
  if (q_.is_cuda()) {
    return AddVarlenGrad(plan, {q_, out_, lse_.squeeze(-1), dout_, scale_}, k,
                         v, dq_, grad.dk, grad.dv);
  }
  const std::vector<TileBatch> batches = BatchTiles(plan);
  if (batches.empty()) return;
  const at::Tensor typed_k = k.to(type_);
  const at::Tensor typed_v = v.to(type_);
  for (const TileBatch& batch : batches) {
    const auto queries = [&](const at::Tensor& rows) {
      return GatherTiles(rows, batch, TileSide::kQueries);
    };
    const FlashGrads grads =
        FlashBackward({.q = queries(q_),
                       .k = GatherTiles(typed_k, batch, TileSide::kKeys),
                       .v = GatherTiles(typed_v, batch, TileSide::kKeys),
                       .causal = batch.kind == Tile::Kind::kCausal,
                       .mask = TileMask(plan, batch, type_),
                       .scale = scale_},
                      queries(out_), queries(lse_).squeeze(-1), queries(dout_));
    AddTiles(grads.dq, batch, TileSide::kQueries, dq_);
    AddTiles(grads.dk, batch, TileSide::kKeys, grad.dk);
    AddTiles(grads.dv, batch, TileSide::kKeys, grad.dv);
  }
}

}  // namespace cpfeed

#include "core/attention/block_attention.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "core/attention/flash_kernel.h"
#include "core/attention/merge.h"
#include "core/attention/tile_batch.h"
#include "core/attention/tile_tensors.h"
#include "core/attention/varlen_attention.h"

namespace cpfeed {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Merges the results of one batch into the running ones.
template <class T>
void Merge(const TilePlan& plan, const TileBatch& batch,
           const FlashResult& result, at::Tensor& out, at::Tensor& lse) {
  const int64_t heads = out.size(1);
  const int64_t dim = out.size(2);
  const T* part_out = result.out.data_ptr<T>();
  T* part_lse = result.lse.data_ptr<T>();
  for (const Tile& tile : batch.tiles) {
    for (int64_t row = 0; row < tile.q_rows; ++row) {
      const KeyRange keys = VisibleKeys(plan, tile, row);
      if (keys.begin < keys.end) continue;
      std::fill_n(part_lse + row * heads, heads, static_cast<T>(-kInfinity));
    }
    MergePart<T>(tile.q_rows, heads, dim, part_out, part_lse,
                 out.data_ptr<T>() + tile.q_row * heads * dim,
                 lse.data_ptr<T>() + tile.q_row * heads);
    part_out += batch.q_rows * heads * dim;
    part_lse += batch.q_rows * heads;
  }
}

}  // namespace

BlockAttention::BlockAttention(at::Tensor q, int64_t value_dim, double scale)
    : q_(std::move(q)), scale_(scale) {
  const auto options = q_.options().dtype(AccumulatorType(q_.scalar_type()));
  out_ = at::zeros({q_.size(0), q_.size(1), value_dim}, options);
  lse_ = at::full({q_.size(0), q_.size(1)}, -kInfinity, options);
}

void BlockAttention::Add(const TilePlan& plan, const at::Tensor& k,
                         const at::Tensor& v) {
  if (q_.is_cuda()) return AddVarlen(plan, q_, k, v, scale_, out_, lse_);
  for (const TileBatch& batch : BatchTiles(plan)) {
    const FlashResult result =
        FlashForward({.q = GatherTiles(q_, batch, TileSide::kQueries),
                      .k = GatherTiles(k, batch, TileSide::kKeys),
                      .v = GatherTiles(v, batch, TileSide::kKeys),
                      .causal = batch.kind == Tile::Kind::kCausal,
                      .mask = TileMask(plan, batch, q_.scalar_type()),
                      .scale = scale_});
    if (out_.scalar_type() == at::kDouble) {
      Merge<double>(plan, batch, result, out_, lse_);
    } else {
      Merge<float>(plan, batch, result, out_, lse_);
    }
  }
}

at::Tensor BlockAttention::Output() const { return out_.to(q_.scalar_type()); }

}  // namespace cpfeed

#include "core/attention/block_attention.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "core/attention/flash_kernel.h"
#include "core/attention/merge.h"
#include "core/attention/tile_batch.h"

namespace cpfeed {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Where a tile's rows are in one of the tensors.
struct TileRows {
  int64_t begin;
  int64_t count;
};
TileRows QueryRows(const Tile& tile) { return {tile.q_row, tile.q_rows}; }
TileRows KeyRows(const Tile& tile) { return {tile.k_row, tile.k_rows}; }

// The tiles' rows of `tensor` [rows, heads, dim] as [tiles, padded_rows, heads,
// dim]: a view of a lone tile, else a copy with zeros behind each tile.
at::Tensor Rows(const at::Tensor& tensor, const TileBatch& batch,
                TileRows (*rows_of)(const Tile&), int64_t padded_rows) {
  if (batch.tiles.size() == 1) {
    const TileRows rows = rows_of(batch.tiles[0]);
    return tensor.narrow(0, rows.begin, rows.count).unsqueeze(0);
  }
  at::Tensor gathered = at::zeros({static_cast<int64_t>(batch.tiles.size()),
                                   padded_rows, tensor.size(1), tensor.size(2)},
                                  tensor.options());
  const int64_t row_bytes =
      tensor.size(1) * tensor.size(2) * tensor.element_size();
  const auto* const from = static_cast<const std::byte*>(tensor.data_ptr());
  auto* to = static_cast<std::byte*>(gathered.data_ptr());
  for (const Tile& tile : batch.tiles) {
    const TileRows rows = rows_of(tile);
    std::memcpy(to, from + rows.begin * row_bytes, rows.count * row_bytes);
    to += padded_rows * row_bytes;
  }
  return gathered;
}

KeyRange VisibleKeys(const TilePlan& plan, const Tile& tile, int64_t row) {
  if (tile.kind == Tile::Kind::kBand) {
    return plan.bounds[tile.first_bound + row];
  }
  return {0, static_cast<int32_t>(tile.k_rows)};
}

// The additive mask of bands and of padded full tiles, or none where the kernel
// needs none.
std::optional<at::Tensor> Mask(const TilePlan& plan, const TileBatch& batch,
                               at::ScalarType dtype) {
  const bool padded = batch.tiles.size() > 1;
  if (batch.kind == Tile::Kind::kCausal ||
      (batch.kind == Tile::Kind::kFull && !padded)) {
    return std::nullopt;
  }
  at::Tensor mask = at::full(
      {static_cast<int64_t>(batch.tiles.size()), 1, batch.q_rows, batch.k_rows},
      -kInfinity, at::kFloat);
  float* first = mask.data_ptr<float>();
  for (const Tile& tile : batch.tiles) {
    for (int64_t row = 0; row < tile.q_rows; ++row) {
      const KeyRange keys = VisibleKeys(plan, tile, row);
      float* const scores = first + row * batch.k_rows;
      std::fill(scores + keys.begin, scores + keys.end, 0.0f);
    }
    first += batch.q_rows * batch.k_rows;
  }
  return mask.to(dtype);
}

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
  for (const TileBatch& batch : BatchTiles(plan)) {
    const FlashResult result =
        FlashForward(Rows(q_, batch, QueryRows, batch.q_rows),
                     Rows(k, batch, KeyRows, batch.k_rows),
                     Rows(v, batch, KeyRows, batch.k_rows),
                     batch.kind == Tile::Kind::kCausal,
                     Mask(plan, batch, q_.scalar_type()), scale_);
    if (out_.scalar_type() == at::kDouble) {
      Merge<double>(plan, batch, result, out_, lse_);
    } else {
      Merge<float>(plan, batch, result, out_, lse_);
    }
  }
}

at::Tensor BlockAttention::Output() const { return out_.to(q_.scalar_type()); }

}  // namespace cpfeed

#include "core/attention/tile_tensors.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

namespace cpfeed {
namespace {

struct TileRows {
  int64_t begin;
  int64_t count;
};

TileRows RowsOf(const Tile& tile, TileSide side) {
  return side == TileSide::kQueries ? TileRows{tile.q_row, tile.q_rows}
                                    : TileRows{tile.k_row, tile.k_rows};
}

}  // namespace

at::Tensor GatherTiles(const at::Tensor& tensor, const TileBatch& batch,
                       TileSide side) {
  if (batch.tiles.size() == 1) {
    const TileRows rows = RowsOf(batch.tiles[0], side);
    return tensor.narrow(0, rows.begin, rows.count).unsqueeze(0);
  }
  const int64_t padded_rows =
      side == TileSide::kQueries ? batch.q_rows : batch.k_rows;
  at::Tensor gathered = at::zeros({static_cast<int64_t>(batch.tiles.size()),
                                   padded_rows, tensor.size(1), tensor.size(2)},
                                  tensor.options());
  const int64_t row_bytes =
      tensor.size(1) * tensor.size(2) * tensor.element_size();
  const auto* const from = static_cast<const std::byte*>(tensor.data_ptr());
  auto* to = static_cast<std::byte*>(gathered.data_ptr());
  for (const Tile& tile : batch.tiles) {
    const TileRows rows = RowsOf(tile, side);
    std::memcpy(to, from + rows.begin * row_bytes, rows.count * row_bytes);
    to += padded_rows * row_bytes;
  }
  return gathered;
}

void AddTiles(const at::Tensor& tiles, const TileBatch& batch, TileSide side,
              const at::Tensor& into) {
  for (size_t i = 0; i < batch.tiles.size(); ++i) {
    const TileRows rows = RowsOf(batch.tiles[i], side);
    into.narrow(0, rows.begin, rows.count)
        .add_(
            tiles.select(0, static_cast<int64_t>(i)).narrow(0, 0, rows.count));
  }
}

KeyRange VisibleKeys(const TilePlan& plan, const Tile& tile, int64_t row) {
  if (tile.kind == Tile::Kind::kBand) {
    return plan.bounds[tile.first_bound + row];
  }
  return {0, static_cast<int32_t>(tile.k_rows)};
}

std::optional<at::Tensor> TileMask(const TilePlan& plan, const TileBatch& batch,
                                   at::ScalarType dtype) {
  const bool padded = batch.tiles.size() > 1;
  if (batch.kind == Tile::Kind::kCausal ||
      (batch.kind == Tile::Kind::kFull && !padded)) {
    return std::nullopt;
  }
  at::Tensor mask = at::full(
      {static_cast<int64_t>(batch.tiles.size()), 1, batch.q_rows, batch.k_rows},
      -std::numeric_limits<double>::infinity(), at::kFloat);
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

}  // namespace cpfeed

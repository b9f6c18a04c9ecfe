#include "core/attention/tile_batch.h"

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>
#include <utility>

namespace cpfeed {
namespace {

constexpr int64_t kSmallRows = 64;
constexpr int64_t kLeastRows = 8;
constexpr size_t kMaxTiles = 256;

int64_t PaddedRows(int64_t rows) {
  return std::max<int64_t>(
      kLeastRows,
      static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows))));
}

TileBatch Alone(const Tile& tile) {
  return {tile.kind, tile.q_rows, tile.k_rows, {tile}};
}

}  // namespace

std::vector<TileBatch> BatchTiles(const TilePlan& plan) {
  std::vector<TileBatch> batches;
  std::map<std::tuple<Tile::Kind, int64_t, int64_t>, TileBatch> open;
  const auto close = [&](TileBatch& batch) {
    batches.push_back(batch.tiles.size() == 1 ? Alone(batch.tiles[0])
                                              : std::move(batch));
    batch = TileBatch();
  };
  for (const Tile& tile : plan.tiles) {
    if (tile.q_rows > kSmallRows || tile.k_rows > kSmallRows) {
      batches.push_back(Alone(tile));
      continue;
    }
    const auto size = std::make_tuple(tile.kind, PaddedRows(tile.q_rows),
                                      PaddedRows(tile.k_rows));
    TileBatch& batch = open[size];
    std::tie(batch.kind, batch.q_rows, batch.k_rows) = size;
    batch.tiles.push_back(tile);
    if (batch.tiles.size() == kMaxTiles) close(batch);
  }
  for (auto& [size, batch] : open) {
    if (!batch.tiles.empty()) close(batch);
  }
  return batches;
}

}  // namespace cpfeed

#include "core/attention/varlen_batch.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

namespace cpfeed {
namespace {

// A grid of blocks has at most 65,535 in the dimension of the tiles.
constexpr size_t kMostTiles = 32768;

// Tiles of one class differ by less than 16 times in length: a kernel starts
// blocks for the longest tile of a call at every tile.
int LengthClass(const Tile& tile) {
  return static_cast<int>(std::bit_width(static_cast<uint64_t>(tile.q_rows))) /
         4;
}

// For each row the first batch that does not have it yet.
class FreeFrom {
 public:
  int32_t First(int64_t begin, int64_t count) {
    Grow(begin + count);
    return *std::max_element(from_.begin() + begin,
                             from_.begin() + begin + count);
  }
  void Take(int64_t begin, int64_t count, int32_t batch) {
    std::fill_n(from_.begin() + begin, count, batch + 1);
  }

 private:
  void Grow(int64_t rows) {
    if (static_cast<int64_t>(from_.size()) < rows) from_.resize(rows, 0);
  }

  std::vector<int32_t> from_;
};

void AddTile(const Tile& tile, VarlenBatch& batch) {
  batch.kind = tile.kind;
  batch.tiles.push_back(tile);
  batch.q_splits.push_back(batch.q_splits.back() +
                           static_cast<int32_t>(tile.q_rows));
  batch.k_splits.push_back(batch.k_splits.back() +
                           static_cast<int32_t>(tile.k_rows));
  batch.max_q = std::max(batch.max_q, tile.q_rows);
  batch.max_k = std::max(batch.max_k, tile.k_rows);
}

// Groups of tiles that share no row; each tile is in the first where it may.
std::vector<std::vector<Tile>> Disjoint(const std::vector<Tile>& tiles) {
  std::vector<std::vector<Tile>> groups;
  FreeFrom queries, keys;
  for (const Tile& tile : tiles) {
    const int32_t group = std::max(queries.First(tile.q_row, tile.q_rows),
                                   keys.First(tile.k_row, tile.k_rows));
    queries.Take(tile.q_row, tile.q_rows, group);
    keys.Take(tile.k_row, tile.k_rows, group);
    if (group == static_cast<int32_t>(groups.size())) groups.emplace_back();
    groups[group].push_back(tile);
  }
  return groups;
}

void AddKind(const TilePlan& plan, Tile::Kind kind,
             std::vector<VarlenBatch>& batches) {
  std::map<int, std::vector<Tile>> classes;
  for (const Tile& tile : plan.tiles) {
    if (tile.kind == kind) classes[LengthClass(tile)].push_back(tile);
  }
  for (const auto& [length_class, tiles] : classes) {
    for (const std::vector<Tile>& group : Disjoint(tiles)) {
      for (size_t i = 0; i < group.size(); ++i) {
        if (i % kMostTiles == 0) batches.emplace_back();
        AddTile(group[i], batches.back());
      }
    }
  }
}

void AppendRows(int64_t begin, int64_t count, std::vector<int64_t>& rows) {
  for (int64_t i = 0; i < count; ++i) rows.push_back(begin + i);
}

}  // namespace

std::vector<VarlenBatch> VarlenBatches(const TilePlan& plan) {
  std::vector<VarlenBatch> batches;
  AddKind(plan, Tile::Kind::kFull, batches);
  AddKind(plan, Tile::Kind::kCausal, batches);
  for (const Tile& tile : plan.tiles) {
    if (tile.kind == Tile::Kind::kBand) AddTile(tile, batches.emplace_back());
  }
  return batches;
}

std::vector<int64_t> QueryRows(const VarlenBatch& batch) {
  std::vector<int64_t> rows;
  rows.reserve(batch.num_q());
  for (const Tile& tile : batch.tiles)
    AppendRows(tile.q_row, tile.q_rows, rows);
  return rows;
}

std::vector<int64_t> KeyRows(const VarlenBatch& batch) {
  std::vector<int64_t> rows;
  rows.reserve(batch.num_k());
  for (const Tile& tile : batch.tiles)
    AppendRows(tile.k_row, tile.k_rows, rows);
  return rows;
}

std::optional<int64_t> FirstOfRun(const std::vector<int64_t>& rows) {
  if (rows.empty()) return std::nullopt;
  for (size_t i = 1; i < rows.size(); ++i) {
    if (rows[i] != rows[i - 1] + 1) return std::nullopt;
  }
  return rows[0];
}

}  // namespace cpfeed

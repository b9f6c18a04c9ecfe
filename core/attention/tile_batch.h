// Gathers small tiles, so that a pack of many short sequences needs few kernel
// calls.

#ifndef CPFEED_CORE_ATTENTION_TILE_BATCH_H_
#define CPFEED_CORE_ATTENTION_TILE_BATCH_H_

#include <cstdint>
#include <vector>

#include "core/attention/tile_plan.h"

namespace cpfeed {

// Tiles of one kind for one kernel call. Where there is more than one, each is
// padded to q_rows x k_rows; the padding must be masked, but for causal tiles,
// where it lies behind what real queries see.
struct TileBatch {
  Tile::Kind kind = Tile::Kind::kFull;
  int64_t q_rows = 0;
  int64_t k_rows = 0;
  std::vector<Tile> tiles;
};

// All tiles of the plan, each in one batch. Tiles of up to 64 x 64 rows are
// batched with those that a power of two (at least 8) pads to the same size, at
// most 256 in a batch; every other tile is alone and unpadded. The order is a
// function of the plan.
std::vector<TileBatch> BatchTiles(const TilePlan& plan);

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_TILE_BATCH_H_

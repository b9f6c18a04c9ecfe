// How much attention costs on rows of a sequence. Constant time all.

#ifndef CPFEED_CORE_PLAN_ATTENTION_WORK_H_
#define CPFEED_CORE_PLAN_ATTENTION_WORK_H_

#include <cstdint>

#include "core/plan/visible_keys.h"

namespace cpfeed {

// Edge of the tiles that an attention kernel works in.
inline constexpr int64_t kTileSize = 128;

// The query-key pairs that the rows [begin, end) of a sequence of `real` tokens
// see under the mask. 0 <= begin <= end <= real.
//
// Example: causal, rows [1, 3) of any sequence see 2 + 3 keys: 5.
int64_t CountPairs(int64_t begin, int64_t end, int64_t real,
                   const VisibleKeys& mask);

// The tiles that rows [begin, end) of a sequence of `real` tokens touch:
// queries in tiles of kTileSize rows counted from `begin`, keys in tiles
// counted from the sequence's start, from the first to the last key that a row
// of the query tile sees. 0 <= begin, end <= real.
//
// Example: under the causal mask rows [100, 300) are query tiles [100, 228) and
// [228, 300), which see 2 and 3 key tiles: 5.
int64_t CountTiles(int64_t begin, int64_t end, int64_t real,
                   const VisibleKeys& mask);

// Under the causal mask, where `real` does not matter.
inline int64_t CountTiles(int64_t begin, int64_t end) {
  if (end <= begin) return 0;
  // Query tile i ends at begin + i * kTileSize, so it sees one key tile more
  // than the one before; the last one may be cut short.
  const int64_t whole = (end - begin) / kTileSize;
  const int64_t tiles =
      whole * ((begin + kTileSize - 1) / kTileSize) + whole * (whole + 1) / 2;
  if ((end - begin) % kTileSize == 0) return tiles;
  return tiles + (end + kTileSize - 1) / kTileSize;
}

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_ATTENTION_WORK_H_

// How good a plan is.

#ifndef CPFEED_CORE_PLAN_PLAN_METRICS_H_
#define CPFEED_CORE_PLAN_PLAN_METRICS_H_

#include <cstdint>
#include <vector>

#include "core/plan/shard_plan.h"

namespace cpfeed {

// Edge of the tiles that an attention kernel works in.
inline constexpr int64_t kTileSize = 128;

// One rank's part. Everything but num_tokens, padding_rows and slices counts
// real tokens only, under the causal mask inside each sequence.
struct RankMetrics {
  int64_t num_tokens = 0;        // Rows, padding included.
  int64_t padding_rows = 0;      // Slot padding and pad rows among them.
  int64_t area = 0;              // Visible query-key pairs.
  int64_t tiles = 0;             // See CountTiles.
  int64_t kv_rows_received = 0;  // See CountKvRowsReceived.
  int64_t slices = 0;            // Segments.
};

// A figure over the ranks.
struct Spread {
  int64_t max = 0;
  double mean = 0;

  // max / mean: 1 is perfect balance, also where all are 0.
  double imbalance() const {
    return mean > 0 ? static_cast<double>(max) / mean : 1;
  }
};

struct PlanMetrics {
  std::vector<RankMetrics> ranks;  // [cp_size]
  Spread tokens;
  Spread area;
  Spread tiles;
  Spread kv_rows_received;
  Spread slices;
  int64_t padding_tokens = 0;   // Over all ranks.
  int64_t unsharded_tiles = 0;  // What one rank with all tokens would touch.

  // Tiles of all ranks / unsharded_tiles: what cutting costs a kernel. 1 where
  // there are none.
  double tile_inflation() const {
    if (unsharded_tiles == 0) return 1;
    return tiles.mean * static_cast<double>(ranks.size()) /
           static_cast<double>(unsharded_tiles);
  }
};

// The tiles that rows [begin, end) of a causal sequence touch: queries in tiles
// of kTileSize rows counted from `begin`, keys in tiles counted from the
// sequence's start, up to the last key that a row of the query tile sees.
//
// Example: rows [100, 300) are query tiles [100, 228) and [228, 300), which see
// 2 and 3 key tiles: 5.
int64_t CountTiles(int64_t begin, int64_t end);

// Linear in segments.
//
// Example: one sequence of 8 on two ranks, HEAD_TAIL_PER_SEQUENCE: each has 4
// tokens and an area of 18; rank 0 receives 4 KV rows, rank 1 two.
PlanMetrics ComputePlanMetrics(const ShardPlan& plan);

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_PLAN_METRICS_H_

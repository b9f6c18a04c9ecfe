// How good a plan is.

#ifndef CPFEED_CORE_PLAN_PLAN_METRICS_H_
#define CPFEED_CORE_PLAN_PLAN_METRICS_H_

#include <cstdint>
#include <vector>

#include "core/plan/shard_plan.h"

namespace cpfeed {

// One rank's part. Everything but num_tokens, padding_rows and slices counts
// real tokens only, under the mask of the plan's spec.
struct RankMetrics {
  int64_t num_tokens = 0;        // Rows, padding included.
  int64_t padding_rows = 0;      // Slot padding and pad rows among them.
  int64_t area = 0;              // Visible query-key pairs.
  int64_t cost = 0;              // The area, and linear_cost for each row.
  int64_t tiles = 0;             // See attention_work.h.
  int64_t kv_rows_received = 0;  // See KvTraffic, as for those below.
  int64_t kv_rows_sent = 0;
  int64_t kv_rows_sent_once = 0;
  int64_t kv_fan_out = 0;
  int64_t slices = 0;  // Segments.
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
  Spread cost;  // area + linear_cost for each row.
  Spread tiles;
  Spread kv_rows_received;
  Spread kv_rows_sent;
  Spread kv_rows_sent_once;
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

// PlanMetrics::area alone. Linear in segments: a tenth of all metrics' time or
// less.
Spread ComputeAreaSpread(const ShardPlan& plan);

// O(S log S) in segments.
//
// Example: one sequence of 8 on two ranks, HEAD_TAIL_PER_SEQUENCE: each has 4
// tokens and an area of 18; rank 0 receives 4 KV rows, rank 1 two.
PlanMetrics ComputePlanMetrics(const ShardPlan& plan);

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_PLAN_METRICS_H_

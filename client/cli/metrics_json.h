// Plans and their metrics as JSON.

#ifndef CPFEED_CLIENT_CLI_METRICS_JSON_H_
#define CPFEED_CLIENT_CLI_METRICS_JSON_H_

#include <cstdint>
#include <string>

#include "client/cli/json_values.h"
#include "core/plan/plan_bounds.h"
#include "core/plan/plan_metrics.h"
#include "core/plan/rank_plan.h"

namespace cpfeed {

// The fields of cpfeed.v1.PlanMetrics: max_ and mean_ over the ranks of tokens,
// area, tiles, kv_rows_received, kv_rows_sent, kv_rows_sent_once and slices;
// area_imbalance, tile_imbalance and cost_imbalance (max / mean),
// padding_tokens, unsharded_tiles, tile_inflation, max_kv_fan_out.
Json MetricsJson(const PlanMetrics& metrics);

// The fields of PlanBounds, named as the metrics that they bound;
// mean_kv_rows_received_band is the tighter one.
Json BoundsJson(const PlanBounds& bounds);

// [[sequence, begin, length], ...]
Json SegmentsJson(const RankPlan& rank);

// 16 hexadecimal digits: JSON's numbers do not hold 64 bits.
std::string DigestText(uint64_t digest);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_CLI_METRICS_JSON_H_

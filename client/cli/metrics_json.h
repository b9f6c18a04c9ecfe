// Plans and their metrics as JSON.

#ifndef CPFEED_CLIENT_CLI_METRICS_JSON_H_
#define CPFEED_CLIENT_CLI_METRICS_JSON_H_

#include <cstdint>
#include <string>

#include "client/cli/json_values.h"
#include "core/plan/plan_metrics.h"
#include "core/plan/rank_plan.h"

namespace cpfeed {

// The fields of cpfeed.v1.PlanMetrics: max_ and mean_ over the ranks of tokens,
// area, tiles, kv_rows_received and slices; area_imbalance and tile_imbalance
// (max / mean), padding_tokens, unsharded_tiles, tile_inflation.
Json MetricsJson(const PlanMetrics& metrics);

// [[sequence, begin, length], ...]
Json SegmentsJson(const RankPlan& rank);

// 16 hexadecimal digits: JSON's numbers do not hold 64 bits.
std::string DigestText(uint64_t digest);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_CLI_METRICS_JSON_H_

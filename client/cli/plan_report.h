// What `cpfeed plan` says about one layout.

#ifndef CPFEED_CLIENT_CLI_PLAN_REPORT_H_
#define CPFEED_CLIENT_CLI_PLAN_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/cli/json_values.h"
#include "core/plan/layout_spec.h"
#include "core/plan/plan_bounds.h"
#include "core/plan/plan_metrics.h"
#include "core/plan/rank_plan.h"
#include "core/plan/shard_plan.h"
#include "core/plan/transfer_table.h"

namespace cpfeed {

struct PlanReport {
  LayoutSpec spec;      // Resolved.
  absl::Status status;  // Not OK where the layout refuses; then the rest is
                        // empty.
  ShardPlan plan;
  PlanMetrics metrics;
  PlanBounds bounds;
  std::vector<int64_t> kv_peers;  // Ranks that each receives from.
  double plan_ms = 0;     // Time to plan, digest and transfers included.
  bool verified = false;  // The plan passed VerifyPlan.
  std::optional<int64_t> kv_row_bytes;  // Of one token's keys and values.
};

// Fills in metrics, bounds and kv_peers of `report.plan`.
void MeasurePlan(const TransferTable& transfers, PlanReport& report);

// {"layout", "objective", "status", "digest", "plan_ms", "metrics", "bounds",
// "ranks"}, each rank with
// its figures and, where asked for, its segments. A refusal has "layout",
// "status", "reason" and "message".
Json PlanReportJson(const PlanReport& report, bool with_segments);

// One line for each layout.
std::string LayoutTable(const std::vector<PlanReport>& reports);

// One line for each rank of a plan.
std::string RankTable(const PlanReport& report);

// "rank 0: 0[0,2) 0[6,8) 1[0,1)": sequence and positions in its slot.
std::string RankLine(int rank, const RankPlan& plan);

// One line for each rank.
std::string SegmentLines(const ShardPlan& plan);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_CLI_PLAN_REPORT_H_

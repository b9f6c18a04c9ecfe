#include "client/cli/plan_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/command_status.h"
#include "client/cli/metrics_json.h"
#include "client/cli/plan_flags.h"
#include "client/cli/text_table.h"
#include "core/base/error.h"
#include "core/plan/layout.h"

namespace cpfeed {
namespace {

Json RankJson(const PlanReport& report, int rank, bool with_segments) {
  const RankMetrics& metrics = report.metrics.ranks[rank];
  Json json = {{"rank", rank},
               {"tokens", metrics.num_tokens},
               {"padding_rows", metrics.padding_rows},
               {"area", metrics.area},
               {"tiles", metrics.tiles},
               {"kv_rows_received", metrics.kv_rows_received},
               {"kv_rows_sent", metrics.kv_rows_sent},
               {"kv_rows_sent_once", metrics.kv_rows_sent_once},
               {"kv_fan_out", metrics.kv_fan_out},
               {"kv_peers", report.kv_peers[rank]},
               {"slices", metrics.slices}};
  if (report.kv_row_bytes.has_value()) {
    json["kv_bytes_received"] = metrics.kv_rows_received * *report.kv_row_bytes;
  }
  if (with_segments) json["segments"] = SegmentsJson(report.plan.ranks[rank]);
  return json;
}

Json ReportMetricsJson(const PlanReport& report) {
  Json json = MetricsJson(report.metrics);
  if (report.kv_row_bytes.has_value()) {
    const Spread& rows = report.metrics.kv_rows_received;
    json["max_kv_bytes_received"] = rows.max * *report.kv_row_bytes;
    json["mean_kv_bytes_received"] =
        rows.mean * static_cast<double>(*report.kv_row_bytes);
  }
  return json;
}

std::string Mebibytes(const PlanReport& report, int64_t rows) {
  return absl::StrFormat("%.1f", static_cast<double>(rows) *
                                     static_cast<double>(*report.kv_row_bytes) /
                                     (1 << 20));
}

// What the figures above it can be at best: bounds do not depend on the layout.
std::string BoundsLine(const std::vector<PlanReport>& reports) {
  for (const PlanReport& report : reports) {
    if (!report.status.ok()) continue;
    const PlanBounds& bounds = report.bounds;
    return absl::StrFormat(
        "at best: tokens %d, area %.3f, tiles %.3f, kv rows in %.1f mean (band "
        "%.1f) and %.1f max, slices %d\n",
        bounds.max_tokens, bounds.area_imbalance,
        report.metrics.unsharded_tiles == 0
            ? 1.0
            : bounds.max_tiles * report.plan.cp_size /
                  static_cast<double>(report.metrics.unsharded_tiles),
        bounds.mean_kv_rows, bounds.mean_kv_band, bounds.max_kv_rows,
        bounds.max_slices);
  }
  return "";
}

std::string Refusal(const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  return absl::StrCat(
      ExitStatusOf(status) == kExitFailure ? "failed: " : "refused: ",
      reason.empty() ? absl::StatusCodeToString(status.code()) : reason, ": ",
      status.message());
}

}  // namespace

void MeasurePlan(const TransferTable& transfers, PlanReport& report) {
  const ShardPlan& plan = report.plan;
  report.metrics = ComputePlanMetrics(plan);
  report.bounds =
      ComputePlanBounds(plan.lengths, plan.cp_size, report.spec.mask);
  for (int rank = 0; rank < plan.cp_size; ++rank) {
    report.kv_peers.push_back(
        static_cast<int64_t>(transfers.ReceivedBy(rank).size()));
  }
}

Json PlanReportJson(const PlanReport& report, bool with_segments) {
  Json json = {{"layout", std::string(LayoutName(report.spec.layout))}};
  if (!report.status.ok()) {
    json.update(ErrorJson(report.status));
    return json;
  }
  json["objective"] = std::string(ObjectiveName(report.spec.objective));
  json["status"] = "OK";
  json["digest"] = DigestText(report.plan.digest);
  json["plan_ms"] = report.plan_ms;
  if (report.verified) json["verified"] = true;
  json["metrics"] = ReportMetricsJson(report);
  json["bounds"] = BoundsJson(report.bounds);
  json["ranks"] = Json::array();
  for (int rank = 0; rank < report.plan.cp_size; ++rank) {
    json["ranks"].push_back(RankJson(report, rank, with_segments));
  }
  return json;
}

std::string LayoutTable(const std::vector<PlanReport>& reports) {
  const auto any = [&](const auto& has) {
    return std::any_of(reports.begin(), reports.end(), has);
  };
  const bool with_bytes =
      any([](const PlanReport& r) { return r.kv_row_bytes.has_value(); });
  const bool verified = any([](const PlanReport& r) { return r.verified; });
  std::vector<std::string> headings = {"layout",          "tokens\nmax",
                                       "padding\nrows",   "area\nmax/mean",
                                       "tiles\nmax/mean", "kv rows in\nmean",
                                       "kv rows in\nmax", "kv rows out\nmax"};
  if (with_bytes) headings.push_back("kv MiB in\nmax");
  headings.insert(headings.end(), {"slices\nmax", "plan\nms", "digest"});
  if (verified) headings.push_back("verified");
  TextTable table(headings);
  for (const PlanReport& report : reports) {
    const std::string name(LayoutName(report.spec.layout));
    if (!report.status.ok()) {
      table.AddNote(name, Refusal(report.status));
      continue;
    }
    const PlanMetrics& metrics = report.metrics;
    std::vector<std::string> cells = {
        name,
        absl::StrCat(metrics.tokens.max),
        absl::StrCat(metrics.padding_tokens),
        absl::StrFormat("%.3f", metrics.area.imbalance()),
        absl::StrFormat("%.3f", metrics.tiles.imbalance()),
        absl::StrFormat("%.1f", metrics.kv_rows_received.mean),
        absl::StrCat(metrics.kv_rows_received.max),
        absl::StrCat(metrics.kv_rows_sent.max)};
    if (with_bytes) {
      cells.push_back(Mebibytes(report, metrics.kv_rows_received.max));
    }
    cells.insert(cells.end(), {absl::StrCat(metrics.slices.max),
                               absl::StrFormat("%.3f", report.plan_ms),
                               DigestText(report.plan.digest)});
    if (verified) cells.push_back("yes");
    table.AddRow(cells);
  }
  return table.ToString() + BoundsLine(reports);
}

std::string RankTable(const PlanReport& report) {
  const bool with_bytes = report.kv_row_bytes.has_value();
  std::vector<std::string> headings = {"rank",       "tokens", "padding",
                                       "area",       "tiles",  "kv rows in",
                                       "kv rows out"};
  if (with_bytes) headings.push_back("kv MiB in");
  headings.push_back("slices");
  TextTable table(headings);
  for (int rank = 0; rank < report.plan.cp_size; ++rank) {
    const RankMetrics& metrics = report.metrics.ranks[rank];
    std::vector<std::string> cells = {absl::StrCat(rank),
                                      absl::StrCat(metrics.num_tokens),
                                      absl::StrCat(metrics.padding_rows),
                                      absl::StrCat(metrics.area),
                                      absl::StrCat(metrics.tiles),
                                      absl::StrCat(metrics.kv_rows_received),
                                      absl::StrCat(metrics.kv_rows_sent)};
    if (with_bytes)
      cells.push_back(Mebibytes(report, metrics.kv_rows_received));
    cells.push_back(absl::StrCat(metrics.slices));
    table.AddRow(cells);
  }
  return table.ToString();
}

std::string RankLine(int rank, const RankPlan& plan) {
  std::string text = absl::StrCat("rank ", rank, ":");
  for (const Segment& segment : plan.segments) {
    absl::StrAppend(&text, " ", segment.sequence, "[", segment.begin, ",",
                    segment.begin + segment.length, ")");
  }
  return text + "\n";
}

std::string SegmentLines(const ShardPlan& plan) {
  std::string text;
  for (int rank = 0; rank < plan.cp_size; ++rank) {
    text += RankLine(rank, plan.ranks[rank]);
  }
  return text;
}

}  // namespace cpfeed

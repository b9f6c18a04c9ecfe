#include "client/worker/step_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/plan/plan_metrics.h"

namespace cpfeed {

StepReport ReportOfPlans(int64_t step, const StepShard& shard) {
  StepReport report{.step = step};
  std::vector<int64_t> area;
  for (const Shard& chunk : shard.chunks) {
    const PlanMetrics metrics = ComputePlanMetrics(*chunk.plan);
    for (const int64_t real : chunk.plan->lengths.real) {
      report.documents += real > 0 ? 1 : 0;
      report.tokens += real;
    }
    report.padding += metrics.padding_tokens;
    area.resize(metrics.ranks.size());
    for (size_t rank = 0; rank < area.size(); ++rank) {
      area[rank] += metrics.ranks[rank].area;
    }
  }
  const int64_t sum = std::reduce(area.begin(), area.end(), int64_t{0});
  if (sum > 0) {
    report.balance =
        static_cast<double>(area.size()) *
        static_cast<double>(*std::max_element(area.begin(), area.end())) /
        static_cast<double>(sum);
  }
  return report;
}

std::string StepReportJson(const StepReport& report) {
  nlohmann::ordered_json json = {
      {"step", report.step},       {"documents", report.documents},
      {"tokens", report.tokens},   {"padding", report.padding},
      {"balance", report.balance}, {"bytes_received", report.bytes_received},
      {"max_difference", nullptr}};
  if (report.max_difference) json["max_difference"] = *report.max_difference;
  return json.dump();
}

std::string StepReportHeadings() {
  return absl::StrFormat("%6s %10s %9s %9s %8s %12s %15s", "step", "documents",
                         "tokens", "padding", "balance", "KiB received",
                         "max difference");
}

std::string StepReportText(const StepReport& report) {
  const int64_t most = report.bytes_received.empty()
                           ? 0
                           : *std::max_element(report.bytes_received.begin(),
                                               report.bytes_received.end());
  return absl::StrFormat("%6d %10d %9d %9d %8.3f %12.1f %15s", report.step,
                         report.documents, report.tokens, report.padding,
                         report.balance, static_cast<double>(most) / 1024,
                         report.max_difference
                             ? absl::StrFormat("%.2e", *report.max_difference)
                             : "-");
}

std::string JobSummaryJson(const JobSummary& summary, int ranks) {
  nlohmann::ordered_json json = {
      {"status", "OK"}, {"steps", summary.steps}, {"ranks", ranks}};
  if (summary.max_difference) json["max_difference"] = *summary.max_difference;
  return json.dump();
}

std::string JobSummaryText(const JobSummary& summary, int ranks) {
  std::string text =
      absl::StrCat("OK: ", summary.steps, " steps, ", ranks, " ranks");
  if (summary.max_difference) {
    absl::StrAppend(&text, ", max difference ", *summary.max_difference);
  }
  return text;
}

}  // namespace cpfeed

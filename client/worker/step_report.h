// What a step of the attention job was like, for people and programs.

#ifndef CPFEED_CLIENT_WORKER_STEP_REPORT_H_
#define CPFEED_CLIENT_WORKER_STEP_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/shard/shard.h"

namespace cpfeed {

struct StepReport {
  int64_t step = 0;
  int64_t documents = 0;  // Sequences with at least one token.
  int64_t tokens = 0;     // Real ones.
  int64_t padding = 0;    // Rows over all ranks that are none.
  // Visible query-key pairs: most of a rank over the mean; 1 is perfect.
  double balance = 1;
  std::vector<int64_t> bytes_received;  // Of keys and values, by rank.
  // To one device; nothing where it was not compared.
  std::optional<double> max_difference;
};

// The part that follows from the plans alone.
StepReport ReportOfPlans(int64_t step, const StepShard& shard);

// {"step", "documents", "tokens", "padding", "balance", "bytes_received",
//  "max_difference"}, one line without its end.
std::string StepReportJson(const StepReport& report);

// The same as a line of a table under StepReportHeadings.
std::string StepReportText(const StepReport& report);
std::string StepReportHeadings();

// All steps together.
struct JobSummary {
  int64_t steps = 0;
  // The largest of a step; nothing where nothing was compared.
  std::optional<double> max_difference;
};

// {"status": "OK", "steps", "ranks", "max_difference"}, the last only where
// there is one; and "OK: 20 steps, 4 ranks, max difference 1e-07".
std::string JobSummaryJson(const JobSummary& summary, int ranks);
std::string JobSummaryText(const JobSummary& summary, int ranks);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_STEP_REPORT_H_

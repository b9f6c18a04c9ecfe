#include "client/worker/step_report.h"

#include <gtest/gtest.h>

#include "core/plan/layout_spec.h"
#include "tests/client/worker/job_steps.h"

namespace cpfeed::testing {
namespace {

TEST(StepReportTest, CountsDocumentsTokensAndPadding) {
  const auto shards =
      ShardsOf(BatchOf({{{3, 4}, {0, 4}}, {{8, 8}}}, 1), {}, /*cp_size=*/2, 2);
  const StepReport report = ReportOfPlans(5, shards[0]);
  EXPECT_EQ(report.step, 5);
  EXPECT_EQ(report.documents, 2);
  EXPECT_EQ(report.tokens, 11);
  EXPECT_EQ(report.padding, 5);
}

// Contiguous halves of a causal sequence of 8 see 10 and 26 pairs, together 36.
TEST(StepReportTest, BalanceIsMostOverMean) {
  const auto shards =
      ShardsOf(BatchOf({{{8, 8}}}, 1), {.layout = Layout::kContiguous}, 2, 1);
  EXPECT_DOUBLE_EQ(ReportOfPlans(0, shards[0]).balance, 26.0 / 18.0);
}

TEST(StepReportTest, JsonIsOneLine) {
  StepReport report{.step = 3,
                    .documents = 2,
                    .tokens = 100,
                    .padding = 28,
                    .balance = 1.25,
                    .bytes_received = {512, 256}};
  EXPECT_EQ(StepReportJson(report),
            R"({"step":3,"documents":2,"tokens":100,"padding":28,)"
            R"("balance":1.25,"bytes_received":[512,256],)"
            R"("max_difference":null})");
  report.max_difference = 0.5;
  EXPECT_EQ(
      StepReportText(report),
      "     3          2       100        28    1.250          0.5        "
      "5.00e-01");
  EXPECT_EQ(StepReportHeadings().size(), StepReportText(report).size());
}

}  // namespace
}  // namespace cpfeed::testing

#include "client/worker/model/model_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace cpfeed {
namespace {

constexpr ModelStepReport kReport = {.step = 3,
                                     .documents = 2,
                                     .tokens = 500,
                                     .labels = 498,
                                     .loss = 4.25,
                                     .one_device_loss = 4.2500004,
                                     .loss_difference = 1e-7,
                                     .gradient_difference = 2e-6};

TEST(ModelReportTest, TextStandsUnderItsHeadings) {
  EXPECT_EQ(ModelStepHeadings(),
            "  step  documents    tokens       loss one device  loss difference"
            "   gradient diff.");
  EXPECT_EQ(ModelStepText(kReport),
            "     3          2       500   4.250000   4.250000         1.00e-07"
            "         2.00e-06");
  EXPECT_EQ(ModelStepText({.step = 3, .loss = 1}),
            "     3          0         0   1.000000          -                -"
            "                -");
}

TEST(ModelReportTest, JsonHasNullForWhatWasNotCompared) {
  const auto json = nlohmann::json::parse(ModelStepJson({.loss = 2.5}));
  EXPECT_EQ(json["loss"], 2.5);
  EXPECT_TRUE(json["one_device_loss"].is_null());
  EXPECT_EQ(nlohmann::json::parse(ModelStepJson(kReport))["labels"], 498);
}

TEST(ModelReportTest, SummarySaysWhatWasCompared) {
  ModelSummary summary{.steps = 60, .first_loss = 5.5, .last_loss = 2.5};
  EXPECT_EQ(ModelSummaryText(summary, 4),
            "OK: 60 steps, 4 ranks, loss 5.500 -> 2.500");
  EXPECT_TRUE(
      nlohmann::json::parse(ModelSummaryJson(summary, 4))["loss_difference"]
          .is_null());
  summary.loss_difference = 1e-7;
  summary.gradient_difference = 2e-6;
  EXPECT_EQ(ModelSummaryText(summary, 4),
            "OK: 60 steps, 4 ranks, loss 5.500 -> 2.500, max relative "
            "difference 1.00e-07 of losses, 2.00e-06 of gradients");
}

}  // namespace
}  // namespace cpfeed

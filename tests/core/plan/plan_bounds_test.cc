#include "core/plan/plan_bounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "core/plan/layout_spec.h"
#include "core/plan/plan_metrics.h"
#include "core/plan/shard_plan.h"
#include "core/plan/visible_keys.h"
#include "tests/core/plan/packs.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::OneRow;

TEST(PlanBoundsTest, OneSequenceOnTwoRanks) {
  const PlanBounds bounds =
      ComputePlanBounds(OneRow({8}), 2, VisibleKeys::Causal());
  EXPECT_EQ(bounds.max_tokens, 4);
  EXPECT_EQ(bounds.max_kv_rows, 4);
  EXPECT_EQ(bounds.area_imbalance, 1);
  EXPECT_EQ(bounds.max_tiles, 1);
  EXPECT_EQ(bounds.max_slices, 1);
}

TEST(PlanBoundsTest, OneRankReceivesNothing) {
  const PlanBounds bounds =
      ComputePlanBounds(OneRow({1000, 7}), 1, VisibleKeys::Causal());
  EXPECT_EQ(bounds.mean_kv_rows, 0);
  EXPECT_EQ(bounds.mean_kv_band, 0);
  EXPECT_EQ(bounds.max_kv_rows, 0);
  EXPECT_EQ(bounds.max_slices, 2);
}

TEST(PlanBoundsTest, TheHeaviestRowIsOnSomeRank) {
  // Ten rows of one sequence on ten ranks: area 55, of which one row is 10.
  EXPECT_DOUBLE_EQ(
      ComputePlanBounds(OneRow({10}), 10, VisibleKeys::Causal()).area_imbalance,
      10 / 5.5);
}

TEST(PlanBoundsTest, NoTokensNoBounds) {
  const PlanBounds bounds =
      ComputePlanBounds(OneRow({0, 0}), 4, VisibleKeys::Causal());
  EXPECT_EQ(bounds.max_tokens, 0);
  EXPECT_EQ(bounds.area_imbalance, 1);
  EXPECT_EQ(bounds.max_tiles, 0);
}

TEST(PlanBoundsTest, ManyRanksTendToTwoThirdsOfTheSequence) {
  // k ranks share one sequence: their bands' ends sum to 2/3 k L.
  const double length = 1 << 20;
  const PlanBounds bounds =
      ComputePlanBounds(OneRow({1 << 20}), 256, VisibleKeys::Causal());
  EXPECT_NEAR(bounds.mean_kv_band / length, 2.0 / 3, 0.02);
  EXPECT_NEAR(bounds.mean_kv_rows / length, 0.5, 0.02);
}

// Plans that keep what the bounds ask for never fall below them.
TEST(PlanBoundsTest, NoBalancedPlanIsBelow) {
  std::mt19937 random(9);
  for (const VisibleKeys& mask :
       {VisibleKeys::Causal(), VisibleKeys::Full(), VisibleKeys::Window(300)}) {
    for (const int cp_size : {2, 3, 8, 16}) {
      for (int i = 0; i < 20; ++i) {
        std::vector<int64_t> lengths;
        for (int s = 0; s < 20; ++s) {
          lengths.push_back(1 + random() % (s % 7 == 0 ? 40000 : 2000));
        }
        const auto plan = PlanShards(OneRow(lengths),
                                     {.layout = Layout::kBalanced,
                                      .objective = Objective::kArea,
                                      .mask = mask},
                                     cp_size);
        ASSERT_THAT(plan, IsOk());
        const PlanMetrics metrics = ComputePlanMetrics(*plan);
        const PlanBounds bounds =
            ComputePlanBounds(plan->lengths, cp_size, mask);
        EXPECT_EQ(metrics.tokens.max, bounds.max_tokens);
        EXPECT_GE(metrics.area.imbalance(), bounds.area_imbalance);
        ASSERT_LE(metrics.area.imbalance(), 1.01);
        EXPECT_GE(metrics.kv_rows_received.mean, bounds.mean_kv_band);
        EXPECT_GE(static_cast<double>(metrics.kv_rows_received.max),
                  bounds.max_kv_rows);
        EXPECT_GE(static_cast<double>(metrics.tiles.max), bounds.max_tiles);
        EXPECT_GE(metrics.slices.max, bounds.max_slices);
      }
    }
  }
}

}  // namespace
}  // namespace cpfeed

#include "core/plan/owner_formula.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>

#include "core/plan/layout_spec.h"
#include "core/plan/rank_plan.h"
#include "core/plan/shard_plan.h"
#include "tests/core/plan/packs.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::OneRow;
using ::cpfeed::testing::PackFor;

class OwnerFormulaTest : public ::testing::TestWithParam<LayoutSpec> {};

// Each position of each segment, and the end up to which the answer holds.
TEST_P(OwnerFormulaTest, NamesTheRankThatHoldsThePosition) {
  std::mt19937 random(41);
  for (const int cp_size : {1, 2, 3, 8, 13}) {
    const auto plan =
        PlanShards(PackFor(GetParam(), cp_size, random), GetParam(), cp_size);
    ASSERT_THAT(plan, IsOk());
    const OwnerFormula formula(*plan);
    for (int rank = 0; rank < cp_size; ++rank) {
      for (const Segment& segment : plan->ranks[rank].segments) {
        const int64_t end = int64_t{segment.begin} + segment.length;
        for (int64_t position = segment.begin; position < end; ++position) {
          const auto owner = formula.OwnerOf(segment.sequence, position);
          ASSERT_TRUE(owner.has_value());
          EXPECT_EQ(owner->cp_rank, rank);
          EXPECT_GT(owner->end, position);
          EXPECT_LE(owner->end, end);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, OwnerFormulaTest,
    ::testing::Values(LayoutSpec{.layout = Layout::kContiguous},
                      LayoutSpec{.layout = Layout::kContiguous, .uneven = true},
                      LayoutSpec{.layout = Layout::kHeadTailPerRow},
                      LayoutSpec{.layout = Layout::kHeadTailPerSequence},
                      LayoutSpec{.layout = Layout::kStriped},
                      LayoutSpec{.layout = Layout::kStriped,
                                 .stripe_width = 5}));

TEST(OwnerFormulaLimitsTest, GreedyLayoutsHaveNone) {
  for (const Layout layout : {Layout::kPtrr, Layout::kChunkGreedy}) {
    const auto plan = PlanShards(OneRow({256}), {.layout = layout}, 2);
    ASSERT_THAT(plan, IsOk());
    EXPECT_FALSE(OwnerFormula(*plan).OwnerOf(0, 0).has_value());
  }
}

}  // namespace
}  // namespace cpfeed

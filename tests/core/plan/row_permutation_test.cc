#include "core/plan/row_permutation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "core/plan/layout.h"
#include "core/plan/layout_spec.h"
#include "core/plan/shard_plan.h"
#include "tests/core/plan/packs.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::OneRow;
using ::cpfeed::testing::PackFor;
using ::cpfeed::testing::TestSpecs;
using ::testing::ElementsAre;

TEST(RowPermutationTest, HeadAndTailBothWays) {
  const auto plan = PlanShards(OneRow({4}), {}, 2);
  ASSERT_THAT(plan, IsOk());
  RowPermutation order;
  ComputeRowPermutation(*plan, order);
  EXPECT_THAT(order.position_of_row, ElementsAre(0, 3, 1, 2));
  EXPECT_THAT(order.row_of_position, ElementsAre(0, 2, 3, 1));
}

TEST(RowPermutationTest, DroppedPaddingHasNoRowAndPadRowsNoPosition) {
  const auto plan = PlanShards(
      OneRow({3}, {5}), {.layout = Layout::kBalanced, .token_multiple = 2}, 2);
  ASSERT_THAT(plan, IsOk());
  RowPermutation order;
  ComputeRowPermutation(*plan, order);
  ASSERT_EQ(order.position_of_row.size(), 4);
  ASSERT_EQ(order.row_of_position.size(), 5);
  EXPECT_EQ(order.row_of_position[3], -1);
  EXPECT_EQ(order.row_of_position[4], -1);
  EXPECT_THAT(order.position_of_row, ::testing::Contains(-1).Times(1));
}

// Property: one is the other's inverse, and ranks agree with LocalIndex.
TEST(RowPermutationTest, IsAPermutationAndItsInverse) {
  std::mt19937 random(11);
  RowPermutation order;  // With what the plan before has left.
  for (const int cp_size : {1, 2, 3, 7}) {
    for (const LayoutSpec& spec : TestSpecs()) {
      const auto plan =
          PlanShards(PackFor(spec, cp_size, random), spec, cp_size);
      ASSERT_THAT(plan, IsOk());
      ComputeRowPermutation(*plan, order);
      std::vector<int32_t> all;
      for (int rank = 0; rank < cp_size; ++rank) {
        const std::vector<int32_t> index = LocalIndex(*plan, rank);
        all.insert(all.end(), index.begin(), index.end());
      }
      EXPECT_EQ(order.position_of_row, all);
      int64_t there = 0;
      for (size_t position = 0; position < order.row_of_position.size();
           ++position) {
        const int32_t row = order.row_of_position[position];
        if (row < 0) continue;
        EXPECT_EQ(order.position_of_row[row], position);
        ++there;
      }
      int64_t rows = 0;
      for (const int32_t position : order.position_of_row)
        rows += position >= 0;
      EXPECT_EQ(there, rows);
    }
  }
}

}  // namespace
}  // namespace cpfeed

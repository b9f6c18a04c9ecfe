#include "core/attention/row_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/core/plan/packs.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::OneRow;
using ::cpfeed::testing::PackFor;
using ::cpfeed::testing::TestSpecs;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<RowBuffer> ShardsOf(const ShardPlan& plan) {
  std::vector<RowBuffer> shards;
  for (int rank = 0; rank < plan.cp_size; ++rank) {
    shards.push_back({plan.ranks[rank].num_tokens, RankRuns(plan, rank)});
  }
  return shards;
}

TEST(RowRunsTest, RunsLeaveOutPadding) {
  // Slot of 8 with 7 real:  0 1 2 3 4 5 6 .
  // Holder:                 0 0 1 1 1 1 0 0
  const auto plan = PlanShards(OneRow({7}, {8}), {}, 2);
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(RankRuns(*plan, 0),
              ElementsAre(RowRun{0, 0, 0, 2}, RowRun{0, 2, 6, 1}));
  EXPECT_THAT(RankRuns(*plan, 1), ElementsAre(RowRun{0, 0, 2, 4}));
  // Rank 0's rows 0 1 2 3, then rank 1's rows 4 5 6 7.
  const StreamOrder order = OrderRows(ShardsOf(*plan));
  EXPECT_THAT(order.runs, ElementsAre(RowRun{0, 0, 0, 7}));
  EXPECT_THAT(order.source, ElementsAre(0, 1, 4, 5, 6, 7, 2));
}

TEST(RowRunsTest, RankWithOnlyPaddingHasNoRuns) {
  const auto plan = PlanShards(OneRow({2}, {8}), {}, 2);
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(RankRuns(*plan, 0), ElementsAre(RowRun{0, 0, 0, 2}));
  EXPECT_THAT(RankRuns(*plan, 1), IsEmpty());
}

TEST(RowRunsTest, EmptySequencesHaveNoRuns) {
  const auto plan = PlanShards(OneRow({0, 4, 0}, {4, 4, 0}), {}, 2);
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(RankRuns(*plan, 1), ElementsAre(RowRun{1, 2, 1, 2}));
  EXPECT_THAT(OrderRows(ShardsOf(*plan)).runs, ElementsAre(RowRun{1, 0, 0, 4}));
}

TEST(RowRunsTest, RowsThatAreNotThereLeaveGaps) {
  // Positions 4 5 of sequence 0, then 0 1 of it; of sequence 1 only 7.
  const std::vector<RowBuffer> buffers = {{3, {{0, 1, 4, 2}}},
                                          {3, {{0, 0, 0, 2}, {1, 2, 7, 1}}}};
  const StreamOrder order = OrderRows(buffers);
  EXPECT_THAT(order.runs, ElementsAre(RowRun{0, 0, 0, 2}, RowRun{0, 2, 4, 2},
                                      RowRun{1, 4, 7, 1}));
  EXPECT_THAT(order.source, ElementsAre(3, 4, 1, 2, 5));
}

// Property: OrderRows names each real token's row once, and the row is where
// LocalIndex says.
TEST(RowRunsTest, OrderFindsEveryRealToken) {
  std::mt19937 random(1);
  for (const LayoutSpec& spec : TestSpecs()) {
    for (const int cp_size : {1, 2, 3, 4}) {
      const auto plan =
          PlanShards(PackFor(spec, cp_size, random), spec, cp_size);
      ASSERT_THAT(plan, IsOk());
      std::vector<int32_t> held;
      for (int rank = 0; rank < cp_size; ++rank) {
        const auto index = LocalIndex(*plan, rank);
        held.insert(held.end(), index.begin(), index.end());
      }
      std::vector<int32_t> expected, found;
      int32_t slot = 0;
      for (int64_t s = 0; s < plan->lengths.num_sequences(); ++s) {
        for (int32_t p = 0; p < plan->lengths.real[s]; ++p) {
          expected.push_back(slot + p);
        }
        slot += plan->lengths.padded[s];
      }
      for (const int64_t row : OrderRows(ShardsOf(*plan)).source) {
        found.push_back(held[row]);
      }
      EXPECT_EQ(found, expected);
    }
  }
}

}  // namespace
}  // namespace cpfeed

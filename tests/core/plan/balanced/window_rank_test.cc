#include "core/plan/balanced/window_rank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <vector>

#include "core/plan/balanced/interval_pool.h"
#include "core/plan/balanced/row_cost.h"
#include "core/plan/balanced/row_exchange.h"
#include "core/plan/layout_spec.h"
#include "core/plan/visible_keys.h"

namespace cpfeed {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

TEST(FillByWindowTest, TakesTheTopOfTheLongestAndTheShortest) {
  // Open: 0..1 of sequence 1 and 0..5 of sequence 0; 8 rows cost 3 + 21 = 24.
  // A rank of 4 rows should cost 12: rows 4 5 of sequence 0 and both of 1 cost
  // 14, rows 5 of 0, both of 1 and 0 of 0 cost 10; both are as near.
  const std::vector<int64_t> real = {6, 2};
  const RowCost cost(Objective::kArea, VisibleKeys::Causal(), 0, real);
  IntervalPool pool(real, cost);
  RankPart rank{.rows = 4, .cost = 13};
  FillByWindow(pool, rank);
  EXPECT_THAT(rank.slices,
              UnorderedElementsAre(Slice{0, 4, 6}, Slice{1, 0, 2}));
  EXPECT_EQ(rank.rows, 0);
  EXPECT_EQ(rank.cost, -1);
}

TEST(FillByWindowTest, TheLastRankTakesAllThatIsLeft) {
  const std::vector<int64_t> real = {6, 2};
  const RowCost cost(Objective::kArea, VisibleKeys::Causal(), 0, real);
  IntervalPool pool(real, cost);
  RankPart rank{.rows = 8, .cost = 24};
  FillByWindow(pool, rank);
  EXPECT_EQ(rank.cost, 0);
  EXPECT_TRUE(pool.empty());
  RankPart nothing;
  FillByWindow(pool, nothing);
  EXPECT_THAT(nothing.slices, IsEmpty());
}

// What window_rank.h proves: the error over the ranks so far never exceeds half
// of the heaviest row, whatever the lengths.
class WindowErrorTest : public ::testing::TestWithParam<VisibleKeys> {};

TEST_P(WindowErrorTest, StaysWithinHalfARow) {
  std::mt19937 random(17);
  for (int round = 0; round < 200; ++round) {
    std::vector<int64_t> real;
    const int64_t count = 1 + random() % 40;
    for (int64_t i = 0; i < count; ++i) {
      real.push_back(1 + random() % (random() % 5 == 0 ? 3000 : 60));
    }
    const RowCost cost(Objective::kArea, GetParam(), 0, real);
    IntervalPool pool(real, cost);
    const int64_t total_rows = pool.open_rows();
    const int64_t total_cost = pool.open_cost();
    const int64_t cp_size = 1 + random() % 20;
    int64_t rows = 0;
    int64_t placed = 0;
    for (int64_t r = 0; r < cp_size; ++r) {
      const int64_t take =
          total_rows * (r + 1) / cp_size - total_rows * r / cp_size;
      rows += take;
      const double share = static_cast<double>(total_cost) * rows / total_rows;
      const auto aim = static_cast<int64_t>(share) - placed;
      RankPart rank{.rows = take, .cost = aim};
      FillByWindow(pool, rank);
      ASSERT_EQ(rank.rows, 0);
      placed += aim - rank.cost;
      // One more for rounding.
      ASSERT_LE(std::abs(placed - share), cost.Heaviest() / 2.0 + 1)
          << "rank " << r << " of " << cp_size;
      int64_t taken = 0;
      for (const Slice& slice : rank.slices) {
        taken += slice.end - slice.begin;
      }
      EXPECT_EQ(taken, take);
    }
    EXPECT_TRUE(pool.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Masks, WindowErrorTest,
                         ::testing::Values(VisibleKeys::Causal(),
                                           VisibleKeys::Full(),
                                           VisibleKeys::Window(100)));

// Whole sequences dealt by their number: as unequal as it gets.
TEST(ExchangeRowsTest, BringsAnyDealWithinOneRowOfTheMean) {
  std::mt19937 random(18);
  for (int round = 0; round < 50; ++round) {
    const int64_t cp_size = 2 + random() % 6;
    const int64_t share = 1 + random() % 200;
    const std::vector<int64_t> real = {cp_size * share};
    const RowCost cost(Objective::kArea, VisibleKeys::Causal(), 0, real);
    std::vector<std::vector<Slice>> ranks;
    int64_t total = 0;
    for (int64_t r = 0; r < cp_size; ++r) {
      ranks.push_back({{0, static_cast<int32_t>(r * share),
                        static_cast<int32_t>((r + 1) * share)}});
      total += cost.Of(0, r * share, (r + 1) * share);
    }
    ExchangeRows(cost, ranks);
    std::vector<int> holders(cp_size * share, 0);
    for (const std::vector<Slice>& slices : ranks) {
      int64_t rank_cost = 0;
      int64_t rows = 0;
      for (const Slice& slice : slices) {
        rank_cost += cost.Of(0, slice.begin, slice.end);
        rows += slice.end - slice.begin;
        for (int32_t p = slice.begin; p < slice.end; ++p) ++holders[p];
      }
      EXPECT_EQ(rows, share);
      EXPECT_LE(rank_cost, total / cp_size + cost.Heaviest());
    }
    EXPECT_THAT(holders, ::testing::Each(1));
  }
}

TEST(ExchangeRowsTest, LeavesBalancedRanksAlone) {
  const std::vector<int64_t> real = {8};
  const RowCost cost(Objective::kArea, VisibleKeys::Causal(), 0, real);
  std::vector<std::vector<Slice>> ranks = {{{0, 0, 2}, {0, 6, 8}}, {{0, 2, 6}}};
  EXPECT_EQ(ExchangeRows(cost, ranks), 0);
}

TEST(CanonicalizeTest, SortsJoinsAndDropsEmptyOnes) {
  std::vector<Slice> slices = {{1, 4, 6}, {0, 3, 3}, {1, 0, 4}, {0, 7, 9}};
  Canonicalize(slices);
  EXPECT_THAT(slices, ::testing::ElementsAre(Slice{0, 7, 9}, Slice{1, 0, 6}));
}

}  // namespace
}  // namespace cpfeed

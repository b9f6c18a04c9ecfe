// The greedy rank, the pair of intervals and the exchange of slices: what each
// promises to the planner.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <vector>

#include "core/plan/balanced/greedy_rank.h"
#include "core/plan/balanced/interval_pool.h"
#include "core/plan/balanced/light_fill.h"
#include "core/plan/balanced/pair_rank.h"
#include "core/plan/balanced/row_cost.h"
#include "core/plan/balanced/slice_exchange.h"
#include "core/plan/layout_spec.h"
#include "core/plan/visible_keys.h"

namespace cpfeed {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

RowCost AreaOf(const std::vector<int64_t>& real) {
  return RowCost(Objective::kArea, VisibleKeys::Causal(), 0, real);
}

TEST(LightFillTest, TakesWholeIntervalsAndTheHeadOfOneMore) {
  const std::vector<int64_t> real = {2, 3, 9};
  const RowCost cost = AreaOf(real);
  IntervalPool pool(real, cost);
  const LightFill fill = FindLightFill(pool, {.own_place = pool.last()}, 4);
  EXPECT_EQ(fill.cost, 3 + (1 + 2));
  EXPECT_EQ(fill.stop, 1);
  EXPECT_EQ(fill.part, 1);
  EXPECT_EQ(fill.part_rows, 2);
  RankPart rank{.rows = 4};
  TakeLightFill(pool, {.own_place = pool.last()}, fill, rank);
  EXPECT_THAT(rank.slices, ElementsAre(Slice{0, 0, 2}, Slice{1, 0, 2}));
}

TEST(LightFillTest, TheHeadOfItsOwnComesBeforeHeavierIntervals) {
  const std::vector<int64_t> real = {2, 30, 40};
  const RowCost cost = AreaOf(real);
  IntervalPool pool(real, cost);
  FillTerms terms = {.own = 2, .own_rows = 5, .own_place = 1};
  FindPlaces(pool, terms);
  const LightFill fill = FindLightFill(pool, terms, 6);
  EXPECT_EQ(fill.cost, 3 + 10);
  EXPECT_EQ(fill.part, 2);
  EXPECT_EQ(fill.part_rows, 4);
}

// A long sequence and short ones: its top and whole short ones, and nothing of
// a second long one.
TEST(FillGreedilyTest, PairsTheTopOfTheLongestWithShortOnes) {
  std::vector<int64_t> real = {10000, 9000};
  for (int i = 0; i < 100; ++i) real.push_back(100);
  const RowCost cost = AreaOf(real);
  IntervalPool pool(real, cost);
  const int64_t rows = pool.open_rows() / 10;
  const int64_t mean = pool.open_cost() / 10;
  RankPart rank{.rows = rows, .cost = mean};
  FillGreedily(pool, mean, rank);
  EXPECT_EQ(rank.rows, 0);
  EXPECT_LE(std::abs(rank.cost), mean / 1000);
  bool has_the_last_row = false;
  for (const Slice& slice : rank.slices) {
    EXPECT_NE(slice.sequence, 1);
    has_the_last_row |= slice.sequence == 0 && slice.end == 10000;
  }
  EXPECT_TRUE(has_the_last_row);
}

TEST(FillFromPairTest, MeetsRowsAndCostFromOneLongSequence) {
  const std::vector<int64_t> real = {10000};
  const RowCost cost = AreaOf(real);
  IntervalPool pool(real, cost);
  const int64_t mean = pool.open_cost() / 10;
  RankPart rank{.rows = 1000, .cost = mean};
  FillFromPair(pool, mean, rank);
  EXPECT_EQ(rank.rows, 0);
  EXPECT_LE(std::abs(rank.cost), 10000);
  ASSERT_EQ(rank.slices.size(), 2);
  EXPECT_EQ(rank.slices[0].end, 10000);
  EXPECT_EQ(rank.slices[1].begin, 0);
}

TEST(FillFromPairTest, TakesExactRowsFromAnyPool) {
  std::mt19937 random(6);
  for (int round = 0; round < 200; ++round) {
    std::vector<int64_t> real;
    for (int i = 0; i < 30; ++i) real.push_back(1 + random() % 500);
    const RowCost cost = AreaOf(real);
    IntervalPool pool(real, cost);
    const int64_t mean = pool.open_cost() / 7;
    RankPart rank{.rows = pool.open_rows() / 7,
                  .cost = static_cast<int64_t>(random() % (2 * mean))};
    FillFromPair(pool, mean, rank);
    EXPECT_EQ(rank.rows, 0);
  }
}

TEST(ExchangeSlicesTest, EvensOutTilesAndKeepsRows) {
  // Rank 0 has the dear half of a long sequence, rank 1 the cheap one.
  const std::vector<int64_t> real = {128 * 64};
  const RowCost cost(Objective::kTile, VisibleKeys::Causal(), 0, real);
  std::vector<std::vector<Slice>> ranks = {{{0, 128 * 32, 128 * 64}},
                                           {{0, 0, 128 * 32}}};
  const int64_t mean = cost.Of(0, 0, real[0]) / 2;
  ExchangeSlices(cost, {.mean = mean, .most = mean + mean / 50, .unit = 128},
                 ranks);
  for (const std::vector<Slice>& slices : ranks) {
    int64_t rows = 0;
    int64_t load = 0;
    for (const Slice& slice : slices) {
      rows += slice.end - slice.begin;
      load += cost.Of(0, slice.begin, slice.end);
      EXPECT_EQ(slice.begin % 128, 0);
    }
    EXPECT_EQ(rows, 128 * 32);
    EXPECT_LE(load, mean + mean / 50);
  }
}

}  // namespace
}  // namespace cpfeed

#include "core/plan/balanced/interval_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "core/plan/balanced/row_cost.h"
#include "core/plan/layout_spec.h"
#include "core/plan/visible_keys.h"

namespace cpfeed {
namespace {

using ::testing::ElementsAre;
using ::testing::FieldsAre;

RowCost AreaOf(const std::vector<int64_t>& real) {
  return RowCost(Objective::kArea, VisibleKeys::Causal(), 0, real);
}

std::vector<Slice> OpenSlices(const IntervalPool& pool) {
  std::vector<Slice> slices;
  for (int64_t place = pool.first(); place < pool.last(); ++place) {
    slices.push_back(pool[place].slice);
  }
  return slices;
}

TEST(IntervalPoolTest, OrdersSequencesFromLightToHeavy) {
  const std::vector<int64_t> real = {5, 0, 9, 3};
  const RowCost cost = AreaOf(real);
  const IntervalPool pool(real, cost);
  EXPECT_THAT(
      OpenSlices(pool),
      ElementsAre(FieldsAre(3, 0, 3), FieldsAre(0, 0, 5), FieldsAre(2, 0, 9)));
  EXPECT_EQ(pool.open_rows(), 17);
  EXPECT_EQ(pool.open_cost(), 6 + 15 + 45);
}

TEST(IntervalPoolTest, WithoutItsTopASequenceIsAShorterOne) {
  const std::vector<int64_t> real = {5, 9};
  const RowCost cost = AreaOf(real);
  IntervalPool pool(real, cost);
  RankPart rank{.rows = 10, .cost = 100};
  pool.Take(1, 4, 9, rank);
  EXPECT_THAT(OpenSlices(pool),
              ElementsAre(FieldsAre(1, 0, 4), FieldsAre(0, 0, 5)));
  EXPECT_EQ(rank.rows, 5);
  EXPECT_EQ(rank.cost, 100 - (5 + 6 + 7 + 8 + 9));
  EXPECT_THAT(rank.slices, ElementsAre(FieldsAre(1, 4, 9)));
}

TEST(IntervalPoolTest, RowsOutOfTheMiddleLeaveTwoIntervals) {
  const std::vector<int64_t> real = {9};
  const RowCost cost = AreaOf(real);
  IntervalPool pool(real, cost);
  RankPart rank{.rows = 3};
  pool.Take(0, 3, 6, rank);
  EXPECT_THAT(OpenSlices(pool),
              ElementsAre(FieldsAre(0, 0, 3), FieldsAre(0, 6, 9)));
  EXPECT_EQ(pool.open_rows(), 6);
  EXPECT_EQ(pool.open_cost(), 6 + 24);
}

TEST(IntervalPoolTest, TakesNeighboursAtOnce) {
  const std::vector<int64_t> real = {5, 9, 3, 7};
  const RowCost cost = AreaOf(real);
  for (const int64_t begin : {0, 1}) {
    IntervalPool pool(real, cost);
    RankPart rank{.rows = 20};
    const int64_t before = pool.open_cost();
    pool.TakePlaces(begin, begin + 2, rank);
    EXPECT_EQ(pool.last() - pool.first(), 2);
    EXPECT_EQ(pool.open_cost(), before + rank.cost);
    EXPECT_EQ(20 - rank.rows, begin == 0 ? 3 + 5 : 5 + 7);
    const IntervalPool::Sum all = pool.SumBefore(pool.last());
    EXPECT_EQ(all.rows - pool.SumBefore(pool.first()).rows, pool.open_rows());
  }
}

// Takes at random; what is open is summed up anew each time.
TEST(IntervalPoolTest, SumsAndRestoringAgreeWithSlowOnes) {
  std::mt19937 random(4);
  std::vector<int64_t> real;
  for (int i = 0; i < 60; ++i) real.push_back(random() % 300);
  const RowCost cost = AreaOf(real);
  IntervalPool pool(real, cost);
  for (int round = 0; round < 60 && !pool.empty(); ++round) {
    const std::vector<Slice> before = OpenSlices(pool);
    const int64_t rows_before = pool.open_rows();
    const int64_t cost_before = pool.open_cost();
    RankPart rank{.rows = 1000000};
    pool.Mark();
    for (int i = 0; i < 8 && !pool.empty(); ++i) {
      const int64_t place =
          pool.first() + random() % (pool.last() - pool.first());
      const Slice slice = pool[place].slice;
      const int64_t rows = random() % (slice.end - slice.begin + 1);
      if (random() % 2 == 0) {
        pool.Take(pool.At(place), slice.begin, slice.begin + rows, rank);
      } else {
        pool.Take(pool.At(place), slice.end - rows, slice.end, rank);
      }
      if (pool.empty()) break;
      int64_t open_rows = 0;
      int64_t open_cost = 0;
      const IntervalPool::Sum first = pool.SumBefore(pool.first());
      for (int64_t p = pool.first(); p < pool.last(); ++p) {
        open_rows += pool[p].length();
        open_cost += cost.Of(pool[p].slice.sequence, pool[p].slice.begin,
                             pool[p].slice.end);
        EXPECT_EQ(pool.SumBefore(p + 1).rows - first.rows, open_rows);
        EXPECT_EQ(pool.SumBefore(p + 1).cost - first.cost, open_cost);
      }
      EXPECT_EQ(pool.open_rows(), open_rows);
      EXPECT_EQ(pool.open_cost(), open_cost);
      const int64_t wanted = random() % (open_rows + 1);
      const int64_t stop =
          pool.PlaceAfterRows(pool.first(), pool.last(), wanted);
      EXPECT_LE(pool.SumBefore(stop).rows - first.rows, wanted);
      if (stop < pool.last()) {
        EXPECT_GT(pool.SumBefore(stop + 1).rows - first.rows, wanted);
      }
    }
    if (round % 3 == 0) continue;
    pool.Restore();
    EXPECT_EQ(OpenSlices(pool), before);
    EXPECT_EQ(pool.open_rows(), rows_before);
    EXPECT_EQ(pool.open_cost(), cost_before);
  }
}

// Whole runs and parts of a thousand intervals, so that they come back at once.
TEST(IntervalPoolTest, ManyThatWereTakenComeBack) {
  std::mt19937 random(5);
  std::vector<int64_t> real;
  for (int i = 0; i < 1000; ++i) real.push_back(random() % 300);
  const RowCost cost = AreaOf(real);
  IntervalPool pool(real, cost);
  for (int round = 0; round < 10; ++round) {
    const std::vector<Slice> before = OpenSlices(pool);
    const int64_t rows_before = pool.open_rows();
    const int64_t cost_before = pool.open_cost();
    RankPart rank{.rows = 1000000};
    pool.Mark();
    for (int i = 0; i < 40; ++i) {
      const int64_t open = pool.last() - pool.first();
      if (open == 0) break;
      const int64_t place = pool.first() + (i % 4 == 0 ? 0 : random() % open);
      const Slice slice = pool[place].slice;
      pool.Take(pool.At(place), slice.begin, slice.end - random() % 2, rank);
      const int64_t begin = std::clamp(place, pool.first(), pool.last());
      pool.TakePlaces(begin, std::min<int64_t>(begin + 4, pool.last()), rank);
    }
    EXPECT_LT(pool.open_rows(), rows_before);
    if (round % 3 == 2) continue;
    pool.Restore();
    EXPECT_EQ(OpenSlices(pool), before);
    EXPECT_EQ(pool.open_rows(), rows_before);
    EXPECT_EQ(pool.open_cost(), cost_before);
    const IntervalPool::Sum first = pool.SumBefore(pool.first());
    EXPECT_EQ(pool.SumBefore(pool.last()).rows - first.rows, rows_before);
  }
}

}  // namespace
}  // namespace cpfeed

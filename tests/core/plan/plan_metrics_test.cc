#include "core/plan/plan_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/plan/attention_work.h"
#include "core/plan/layout.h"
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
using ::cpfeed::testing::TestSpecs;
using ::testing::ElementsAre;

PlanMetrics Measure(const PackedLengths& lengths, const LayoutSpec& spec,
                    int cp_size) {
  const auto plan = PlanShards(lengths, spec, cp_size);
  EXPECT_THAT(plan, IsOk());
  return ComputePlanMetrics(*plan);
}

std::vector<int64_t> FigureOf(const PlanMetrics& metrics,
                              int64_t RankMetrics::*figure) {
  std::vector<int64_t> values;
  for (const RankMetrics& rank : metrics.ranks) {
    values.push_back(rank.*figure);
  }
  return values;
}

TEST(PlanMetricsTest, MeasuresOneSequenceOnTwoRanks) {
  // Position:  0 1 2 3 4 5 6 7    rank 0 sees all rows, rank 1 the first six
  // Holder:    0 0 1 1 1 1 0 0
  const PlanMetrics metrics = Measure(OneRow({8}), {}, 2);
  EXPECT_THAT(FigureOf(metrics, &RankMetrics::num_tokens), ElementsAre(4, 4));
  EXPECT_THAT(FigureOf(metrics, &RankMetrics::area), ElementsAre(18, 18));
  EXPECT_THAT(FigureOf(metrics, &RankMetrics::kv_rows_received),
              ElementsAre(4, 2));
  EXPECT_THAT(FigureOf(metrics, &RankMetrics::tiles), ElementsAre(2, 1));
  EXPECT_THAT(FigureOf(metrics, &RankMetrics::slices), ElementsAre(2, 1));
  EXPECT_EQ(metrics.area.max, 18);
  EXPECT_EQ(metrics.area.imbalance(), 1);
  EXPECT_EQ(metrics.kv_rows_received.max, 4);
  EXPECT_EQ(metrics.kv_rows_received.mean, 3);
  EXPECT_EQ(metrics.unsharded_tiles, 1);
  EXPECT_EQ(metrics.tile_inflation(), 3);
  EXPECT_EQ(metrics.padding_tokens, 0);
}

TEST(PlanMetricsTest, PaddingIsRowsWithoutArea) {
  // Seven real tokens: rank 0 holds 0, 1, 6 and the pad.
  const PlanMetrics metrics = Measure(OneRow({7}, {8}), {}, 2);
  EXPECT_THAT(FigureOf(metrics, &RankMetrics::padding_rows), ElementsAre(1, 0));
  EXPECT_THAT(FigureOf(metrics, &RankMetrics::area), ElementsAre(10, 18));
  EXPECT_EQ(metrics.padding_tokens, 1);
}

TEST(PlanMetricsTest, RanksWithoutRealTokensCostNothing) {
  const PlanMetrics metrics = Measure(OneRow({0}, {8}), {}, 2);
  EXPECT_EQ(metrics.area.max, 0);
  EXPECT_EQ(metrics.area.imbalance(), 1);
  EXPECT_EQ(metrics.tiles.max, 0);
  EXPECT_EQ(metrics.tile_inflation(), 1);
  EXPECT_EQ(metrics.kv_rows_received.max, 0);
  EXPECT_EQ(metrics.padding_tokens, 8);
}

// Areas as published for PyTorch's and TransformerEngine's partitions.
struct AreaExample {
  std::string name;
  Layout layout;
  int cp_size;
  std::vector<int64_t> lengths;
  std::vector<int64_t> areas;
};

class PublishedAreaTest : public ::testing::TestWithParam<AreaExample> {};

TEST_P(PublishedAreaTest, RanksHaveTheArea) {
  const AreaExample& example = GetParam();
  const PlanMetrics metrics = Measure(
      OneRow(example.lengths), {.layout = example.layout}, example.cp_size);
  EXPECT_EQ(FigureOf(metrics, &RankMetrics::area), example.areas);
}

constexpr Layout kContiguous = Layout::kContiguous;
constexpr Layout kPerRow = Layout::kHeadTailPerRow;
constexpr Layout kPerSequence = Layout::kHeadTailPerSequence;
constexpr Layout kStriped = Layout::kStriped;

INSTANTIATE_TEST_SUITE_P(
    All, PublishedAreaTest,
    ::testing::ValuesIn(std::vector<AreaExample>{
        {"HeadTail8On2", kPerRow, 2, {8}, {18, 18}},
        {"HeadTail8On4", kPerRow, 4, {8}, {9, 9, 9, 9}},
        {"HeadTail12On3", kPerRow, 3, {12}, {26, 26, 26}},
        {"HeadTail16On4", kPerRow, 4, {16}, {34, 34, 34, 34}},
        {"Contiguous8On2", kContiguous, 2, {8}, {10, 26}},
        {"Contiguous8On4", kContiguous, 4, {8}, {3, 7, 11, 15}},
        {"Contiguous12On3", kContiguous, 3, {12}, {10, 26, 42}},
        {"Contiguous16On4", kContiguous, 4, {16}, {10, 26, 42, 58}},
        {"Documents4And12", kPerSequence, 2, {4, 12}, {44, 44}},
        {"Documents4And8And4", kPerSequence, 2, {4, 8, 4}, {28, 28}},
        {"Documents8And16On4", kPerSequence, 4, {8, 16}, {43, 43, 43, 43}},
        {"RowsOf4And12", kPerRow, 2, {4, 12}, {52, 36}},
        {"RowsOf4And8And4", kPerRow, 2, {4, 8, 4}, {20, 36}},
        {"RowsOf8And16On4", kPerRow, 4, {8, 16}, {51, 51, 43, 27}},
        {"HeadTail64On1", kPerSequence, 1, {64}, {2080}},
        {"HeadTail64On2", kPerSequence, 2, {64}, {1040, 1040}},
        {"HeadTail64On4", kPerSequence, 4, {64}, {520, 520, 520, 520}},
        {"HeadTail64On8",
         kPerSequence,
         8,
         {64},
         {260, 260, 260, 260, 260, 260, 260, 260}},
        {"Contiguous64On2", kContiguous, 2, {64}, {528, 1552}},
        {"Contiguous64On4", kContiguous, 4, {64}, {136, 392, 648, 904}},
        {"Contiguous64On8",
         kContiguous,
         8,
         {64},
         {36, 100, 164, 228, 292, 356, 420, 484}},
        {"Striped64On2", kStriped, 2, {64}, {1024, 1056}},
        {"Striped64On4", kStriped, 4, {64}, {496, 512, 528, 544}},
        {"Striped64On8",
         kStriped,
         8,
         {64},
         {232, 240, 248, 256, 264, 272, 280, 288}},
    }),
    [](const auto& info) { return info.param.name; });

TEST(CountTilesTest, CountsKeyTilesOfEachQueryTile) {
  EXPECT_EQ(CountTiles(0, 0), 0);
  EXPECT_EQ(CountTiles(0, 1), 1);
  EXPECT_EQ(CountTiles(0, 128), 1);
  EXPECT_EQ(CountTiles(0, 129), 3);
  EXPECT_EQ(CountTiles(100, 300), 5);
  EXPECT_EQ(CountTiles(512, 640), 5);
}

// The definitions, row by row: a map of who holds what, and sets of rows and
// tiles.
class RowByRow {
 public:
  explicit RowByRow(const ShardPlan& plan)
      : plan_(plan), metrics_(plan.cp_size) {
    for (const int64_t padded : plan.lengths.padded) {
      holder_.emplace_back(padded, -1);
    }
    for (int rank = 0; rank < plan.cp_size; ++rank) {
      for (const Segment& segment : plan.ranks[rank].segments) {
        for (int32_t i = 0; i < segment.length; ++i) {
          holder_[segment.sequence][segment.begin + i] = rank;
        }
      }
    }
    for (int64_t s = 0; s < plan.lengths.num_sequences(); ++s) {
      CountRows(s);
      CountKvRows(s);
      for (int rank = 0; rank < plan.cp_size; ++rank) CountTilesOf(s, rank);
    }
  }

  const std::vector<RankMetrics>& metrics() const { return metrics_; }

 private:
  void CountRows(int64_t s) {
    for (int64_t p = 0; p < plan_.lengths.padded[s]; ++p) {
      if (holder_[s][p] < 0) continue;  // Dropped padding.
      RankMetrics& rank = metrics_[holder_[s][p]];
      ++rank.num_tokens;
      if (p < plan_.lengths.real[s]) {
        rank.area += p + 1;
      } else {
        ++rank.padding_rows;
      }
    }
  }

  void CountKvRows(int64_t s) {
    for (int64_t key = 0; key < plan_.lengths.real[s]; ++key) {
      std::set<int> readers;
      for (int64_t query = key; query < plan_.lengths.real[s]; ++query) {
        readers.insert(holder_[s][query]);
      }
      readers.erase(holder_[s][key]);
      for (const int reader : readers) ++metrics_[reader].kv_rows_received;
    }
  }

  // Runs of rows of the rank, in query tiles from the run's first row.
  void CountTilesOf(int64_t s, int rank) {
    std::set<int64_t> key_tiles;
    int64_t rows = 0;
    const auto end_tile = [&] {
      metrics_[rank].tiles += static_cast<int64_t>(key_tiles.size());
      key_tiles.clear();
      rows = 0;
    };
    bool in_slice = false;
    for (int64_t p = 0; p < plan_.lengths.padded[s]; ++p) {
      const bool held = holder_[s][p] == rank;
      if (held && !in_slice) ++metrics_[rank].slices;
      in_slice = held;
      if (!held || p >= plan_.lengths.real[s]) {
        end_tile();
        continue;
      }
      for (int64_t key = 0; key <= p; ++key) key_tiles.insert(key / 128);
      if (++rows == 128) end_tile();
    }
    end_tile();
  }

  const ShardPlan& plan_;
  std::vector<std::vector<int>> holder_;  // Of each position of each slot.
  std::vector<RankMetrics> metrics_;
};

bool operator==(const RankMetrics& a, const RankMetrics& b) {
  return a.num_tokens == b.num_tokens && a.padding_rows == b.padding_rows &&
         a.area == b.area && a.tiles == b.tiles &&
         a.kv_rows_received == b.kv_rows_received && a.slices == b.slices;
}

class MetricsAgreementTest : public ::testing::TestWithParam<LayoutSpec> {};

TEST_P(MetricsAgreementTest, SegmentArithmeticAgreesWithCountingRows) {
  std::mt19937 random(11);
  for (const int cp_size : {1, 2, 3, 5, 8}) {
    for (int i = 0; i < 8; ++i) {
      const PackedLengths lengths = PackFor(GetParam(), cp_size, random);
      const auto plan = PlanShards(lengths, GetParam(), cp_size);
      ASSERT_THAT(plan, IsOk());
      const PlanMetrics fast = ComputePlanMetrics(*plan);
      const Spread area = ComputeAreaSpread(*plan);
      EXPECT_EQ(area.max, fast.area.max);
      EXPECT_EQ(area.mean, fast.area.mean);
      const RowByRow slow(*plan);
      for (int rank = 0; rank < cp_size; ++rank) {
        EXPECT_TRUE(fast.ranks[rank] == slow.metrics()[rank])
            << "cp_size " << cp_size << ", pack " << i << ", rank " << rank;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, MetricsAgreementTest,
                         ::testing::ValuesIn(TestSpecs()),
                         [](const auto& info) {
                           return std::string(LayoutName(info.param.layout));
                         });

// Head-tail pairs a light chunk with a heavy one in every sequence, so that
// slots without padding give all ranks the very same work.
TEST(PlanMetricsTest, HeadTailPerSequenceHasEqualAreaOnUnpaddedSlots) {
  std::mt19937 random(13);
  for (int cp_size = 1; cp_size <= 16; ++cp_size) {
    for (int i = 0; i < 20; ++i) {
      const PackedLengths lengths =
          testing::RandomPack({.slot_multiple = 2 * cp_size,
                               .row_multiple = 2 * cp_size,
                               .padding = false},
                              random);
      const PlanMetrics metrics =
          Measure(lengths, {.layout = kPerSequence}, cp_size);
      EXPECT_THAT(FigureOf(metrics, &RankMetrics::area),
                  ::testing::Each(metrics.area.max));
      EXPECT_EQ(metrics.padding_tokens, 0);
    }
  }
}

}  // namespace
}  // namespace cpfeed

#include "core/attention/varlen_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <tuple>
#include <vector>

#include "core/attention/attention_mask.h"
#include "core/attention/row_runs.h"
#include "core/attention/tile_plan.h"
#include "core/plan/shard_plan.h"
#include "tests/core/plan/packs.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr Tile::Kind kFull = Tile::Kind::kFull;
constexpr Tile::Kind kCausal = Tile::Kind::kCausal;
constexpr Tile::Kind kBand = Tile::Kind::kBand;

TEST(VarlenBatchTest, TilesOfDifferentSequencesAreOneBatch) {
  TilePlan plan;
  plan.tiles = {{kCausal, 0, 3, 0, 3}, {kCausal, 5, 2, 4, 2}};
  const auto batches = VarlenBatches(plan);
  ASSERT_THAT(batches, SizeIs(1));
  EXPECT_EQ(batches[0].kind, kCausal);
  EXPECT_THAT(batches[0].q_splits, ElementsAre(0, 3, 5));
  EXPECT_THAT(batches[0].k_splits, ElementsAre(0, 3, 5));
  EXPECT_EQ(batches[0].max_q, 3);
  EXPECT_EQ(batches[0].max_k, 3);
  EXPECT_THAT(QueryRows(batches[0]), ElementsAre(0, 1, 2, 5, 6));
  EXPECT_THAT(KeyRows(batches[0]), ElementsAre(0, 1, 2, 4, 5));
}

TEST(VarlenBatchTest, TilesThatShareRowsAreNot) {
  TilePlan plan;
  plan.tiles = {{kFull, 0, 4, 0, 2},
                {kFull, 2, 4, 8, 2},   // Queries of the first.
                {kFull, 9, 1, 1, 3}};  // Keys of the first.
  const auto batches = VarlenBatches(plan);
  ASSERT_THAT(batches, SizeIs(2));
  EXPECT_THAT(batches[0].tiles, ElementsAre(plan.tiles[0]));
  EXPECT_THAT(batches[1].tiles, ElementsAre(plan.tiles[1], plan.tiles[2]));
}

TEST(VarlenBatchTest, KindsAreApartAndBandsAlone) {
  TilePlan plan;
  plan.tiles = {{kBand, 0, 1, 0, 1, 0},
                {kCausal, 1, 1, 1, 1},
                {kBand, 2, 1, 2, 1, 1},
                {kFull, 3, 1, 3, 1}};
  const auto batches = VarlenBatches(plan);
  ASSERT_THAT(batches, SizeIs(4));
  EXPECT_THAT(batches[0].tiles, ElementsAre(plan.tiles[3]));
  EXPECT_THAT(batches[1].tiles, ElementsAre(plan.tiles[1]));
  EXPECT_THAT(batches[2].tiles, ElementsAre(plan.tiles[0]));
  EXPECT_THAT(batches[3].tiles, ElementsAre(plan.tiles[2]));
}

TEST(VarlenBatchTest, ABatchHasNoMoreTilesThanAGridTakes) {
  TilePlan plan;
  for (int64_t i = 0; i < 70000; ++i) {
    plan.tiles.push_back({kCausal, 2 * i, 2, 2 * i, 2});
  }
  const auto batches = VarlenBatches(plan);
  ASSERT_THAT(batches, SizeIs(3));
  EXPECT_THAT(batches[0].tiles, SizeIs(32768));
  EXPECT_THAT(batches[2].tiles, SizeIs(70000 - 2 * 32768));
  EXPECT_EQ(batches[2].q_splits.back(), 2 * (70000 - 2 * 32768));
}

TEST(VarlenBatchTest, ALongTileIsNotAmongShortOnes) {
  TilePlan plan;
  plan.tiles = {{kCausal, 0, 7, 0, 7},
                {kCausal, 10, 100000, 10, 100000},
                {kCausal, 100010, 5, 100010, 5}};
  const auto batches = VarlenBatches(plan);
  ASSERT_THAT(batches, SizeIs(2));
  EXPECT_THAT(batches[0].tiles, ElementsAre(plan.tiles[0], plan.tiles[2]));
  EXPECT_EQ(batches[0].max_q, 7);
  EXPECT_THAT(batches[1].tiles, ElementsAre(plan.tiles[1]));
}

TEST(VarlenBatchTest, PlanWithoutTilesHasNoBatch) {
  EXPECT_THAT(VarlenBatches({}), SizeIs(0));
}

TEST(VarlenBatchTest, RunsAreKnownByTheirFirst) {
  EXPECT_EQ(FirstOfRun({4, 5, 6}), 4);
  EXPECT_EQ(FirstOfRun({7}), 7);
  EXPECT_EQ(FirstOfRun({4, 6}), std::nullopt);
  EXPECT_EQ(FirstOfRun({5, 4}), std::nullopt);
  EXPECT_EQ(FirstOfRun({}), std::nullopt);
}

bool Distinct(std::vector<int64_t> rows) {
  std::sort(rows.begin(), rows.end());
  return std::adjacent_find(rows.begin(), rows.end()) == rows.end();
}

// Property: over random packs each tile is in one batch, and no batch has a row
// twice.
TEST(VarlenBatchTest, EachTileIsOnceAndNoRowTwiceInABatch) {
  std::mt19937 random(5);
  for (const LayoutSpec& spec : TestSpecs()) {
    for (const AttentionMask& mask :
         {AttentionMask::Causal(), AttentionMask::Full(),
          AttentionMask::Window(7, 2)}) {
      const auto plan = PlanShards(PackFor(spec, 3, random), spec, 3);
      ASSERT_THAT(plan, IsOk());
      const TilePlan tiles =
          PlanTiles(RankRuns(*plan, 0), RankRuns(*plan, 2), mask);
      std::vector<Tile> seen;
      for (const VarlenBatch& batch : VarlenBatches(tiles)) {
        EXPECT_TRUE(Distinct(QueryRows(batch)));
        EXPECT_TRUE(Distinct(KeyRows(batch)));
        EXPECT_EQ(batch.num_q(), QueryRows(batch).size());
        EXPECT_EQ(batch.num_k(), KeyRows(batch).size());
        for (const Tile& tile : batch.tiles) {
          EXPECT_EQ(tile.kind, batch.kind);
          seen.push_back(tile);
        }
      }
      std::vector<Tile> all = tiles.tiles;
      const auto less = [](const Tile& a, const Tile& b) {
        return std::tie(a.q_row, a.k_row, a.kind) <
               std::tie(b.q_row, b.k_row, b.kind);
      };
      std::sort(all.begin(), all.end(), less);
      std::sort(seen.begin(), seen.end(), less);
      EXPECT_EQ(seen, all);
    }
  }
}

}  // namespace
}  // namespace cpfeed::testing

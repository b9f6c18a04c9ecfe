#include "core/attention/tile_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/attention/tile_batch.h"
#include "core/plan/layout.h"
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

constexpr auto kFull = Tile::Kind::kFull;
constexpr auto kCausal = Tile::Kind::kCausal;
constexpr auto kBand = Tile::Kind::kBand;

// The (query row, key row) pairs of some tiles, each as one number, sorted.
using Pairs = std::vector<int64_t>;

int64_t PairOf(int64_t q_row, int64_t k_row) { return q_row << 32 | k_row; }

Pairs PairsOf(const TilePlan& plan) {
  Pairs pairs;
  for (const Tile& tile : plan.tiles) {
    for (int64_t i = 0; i < tile.q_rows; ++i) {
      KeyRange keys = {0, static_cast<int32_t>(tile.k_rows)};
      if (tile.kind == kCausal) keys.end = static_cast<int32_t>(i + 1);
      if (tile.kind == kBand) keys = plan.bounds[tile.first_bound + i];
      EXPECT_LE(keys.end, tile.k_rows);
      for (int64_t j = keys.begin; j < keys.end; ++j) {
        pairs.push_back(PairOf(tile.q_row + i, tile.k_row + j));
      }
    }
  }
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

// The same by the definition of the mask.
Pairs VisiblePairs(const std::vector<RowRun>& queries,
                   const std::vector<RowRun>& keys, const AttentionMask& mask) {
  Pairs pairs;
  for (const RowRun& q : queries) {
    for (const RowRun& k : keys) {
      if (q.sequence != k.sequence) continue;
      for (int64_t i = 0; i < q.length; ++i) {
        for (int64_t j = 0; j < k.length; ++j) {
          const int64_t ahead = (k.position + j) - (q.position + i);
          if ((mask.right < 0 || ahead <= mask.right) &&
              (mask.left < 0 || -ahead <= mask.left)) {
            pairs.push_back(PairOf(q.row + i, k.row + j));
          }
        }
      }
    }
  }
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

ShardPlan Plan(const PackedLengths& lengths, int cp_size,
               Layout layout = Layout::kHeadTailPerSequence) {
  const auto plan = PlanShards(lengths, {.layout = layout}, cp_size);
  EXPECT_THAT(plan, IsOk());
  return *plan;
}

std::vector<Tile> RingTiles(const ShardPlan& plan, int rank, int source,
                            const AttentionMask& mask) {
  return PlanTiles(RankRuns(plan, rank), RankRuns(plan, source), mask).tiles;
}

// Rank 0 holds 0 1 6 7, rank 1 holds 2 3 4 5: TransformerEngine's diagonal,
// upper and lower tiles.
TEST(PlanTilesTest, HeadTailRingNeedsOneTileAStep) {
  const ShardPlan plan = Plan(OneRow({8}), 2);
  const AttentionMask causal = AttentionMask::Causal();
  EXPECT_THAT(RingTiles(plan, 0, 0, causal),
              ElementsAre(Tile{kCausal, 0, 4, 0, 4}));
  EXPECT_THAT(RingTiles(plan, 0, 1, causal),
              ElementsAre(Tile{kFull, 2, 2, 0, 4}));
  EXPECT_THAT(RingTiles(plan, 1, 0, causal),
              ElementsAre(Tile{kFull, 0, 4, 0, 2}));
  EXPECT_THAT(RingTiles(plan, 1, 1, causal),
              ElementsAre(Tile{kCausal, 0, 4, 0, 4}));
}

TEST(PlanTilesTest, FullMaskIsOneTileASequence) {
  const ShardPlan plan = Plan(OneRow({8, 4}), 2);
  EXPECT_THAT(RingTiles(plan, 0, 1, AttentionMask::Full()),
              ElementsAre(Tile{kFull, 0, 4, 0, 4}, Tile{kFull, 4, 2, 4, 2}));
}

TEST(PlanTilesTest, ContiguousRanksSkipTheFuture) {
  const ShardPlan plan = Plan(OneRow({8}), 2, Layout::kContiguous);
  EXPECT_THAT(RingTiles(plan, 0, 1, AttentionMask::Causal()), IsEmpty());
  EXPECT_THAT(RingTiles(plan, 1, 0, AttentionMask::Causal()),
              ElementsAre(Tile{kFull, 0, 4, 0, 4}));
}

// Striped over 2 ranks: rank 0 holds 0 2 4 6, rank 1 holds 1 3 5 7. Every pair
// of ranks is one triangle, for rank 0 against rank 1 shifted by one row.
TEST(PlanTilesTest, StripesAreTriangles) {
  const ShardPlan plan = Plan(OneRow({8}), 2, Layout::kStriped);
  EXPECT_THAT(RingTiles(plan, 1, 0, AttentionMask::Causal()),
              ElementsAre(Tile{kCausal, 0, 4, 0, 4}));
  EXPECT_THAT(RingTiles(plan, 0, 1, AttentionMask::Causal()),
              ElementsAre(Tile{kCausal, 1, 3, 0, 3}));
}

// A rank's head (32 rows) and tail against the whole stream of 128 keys.
TEST(PlanTilesTest, ChunkAgainstTheStreamIsARectangleAndATriangle) {
  const ShardPlan plan = Plan(OneRow({128}), 2);
  EXPECT_THAT(
      PlanTiles(RankRuns(plan, 0), {{0, 0, 0, 128}}, AttentionMask::Causal())
          .tiles,
      ElementsAre(Tile{kCausal, 0, 32, 0, 32}, Tile{kFull, 32, 32, 0, 96},
                  Tile{kCausal, 32, 32, 96, 32}));
}

TEST(PlanTilesTest, SequencesThatOnlyOneSideHasGiveNothing) {
  EXPECT_THAT(PlanTiles({{0, 0, 0, 4}, {2, 4, 0, 4}}, {{1, 0, 0, 4}},
                        AttentionMask::Full())
                  .tiles,
              IsEmpty());
  EXPECT_THAT(PlanTiles({}, {}, AttentionMask::Full()).tiles, IsEmpty());
}

TEST(PlanTilesTest, WindowLeavesOutWhatIsFar) {
  // 1000 tokens with a window of 100 keys: at most 128 + 100 keys for each
  // band of 128 queries, not 1000.
  const TilePlan plan = PlanTiles({{0, 0, 0, 1000}}, {{0, 0, 0, 1000}},
                                  AttentionMask::Window(99, 0));
  int64_t area = 0;
  for (const Tile& tile : plan.tiles) area += tile.q_rows * tile.k_rows;
  EXPECT_LE(area, 1000 * (128 + 100));
}

TEST(PlanTilesTest, HugeWindowIsNoOverflow) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(PlanTiles({{0, 0, 5, 3}}, {{0, 0, 4, 2}},
                        AttentionMask::Window(kHuge, kHuge))
                  .tiles,
              ElementsAre(Tile{kFull, 0, 3, 0, 2}));
}

TEST(PlanTilesTest, FineStripesAreFewTiles) {
  const auto plan = PlanShards(
      OneRow({4096}), {.layout = Layout::kStriped, .stripe_width = 2}, 4);
  ASSERT_THAT(plan, IsOk());
  // 1024 query rows in bands of 128 rows, each a full tile and a band.
  EXPECT_LE(RingTiles(*plan, 1, 2, AttentionMask::Causal()).size(), 16);
}

class PlanTilesPropertyTest : public ::testing::TestWithParam<AttentionMask> {};

// Property: tiles hold each visible pair once and no other, between any two
// ranks, and between a rank and the stream.
TEST_P(PlanTilesPropertyTest, TilesHoldEveryVisiblePairOnce) {
  std::mt19937 random(7);
  for (const LayoutSpec& spec : TestSpecs()) {
    for (const int cp_size : {1, 2, 3}) {
      SCOPED_TRACE(absl::StrCat(LayoutName(spec.layout), " ", cp_size));
      PackedLengths lengths = PackFor(spec, cp_size, random);
      const auto plan = PlanShards(lengths, spec, cp_size);
      ASSERT_THAT(plan, IsOk());
      for (int rank = 0; rank < cp_size; ++rank) {
        const auto queries = RankRuns(*plan, rank);
        std::vector<std::vector<RowRun>> sides;
        std::vector<RowBuffer> shards;
        for (int source = 0; source < cp_size; ++source) {
          sides.push_back(RankRuns(*plan, source));
          shards.push_back({plan->ranks[source].num_tokens, sides.back()});
        }
        sides.push_back(OrderRows(shards).runs);
        for (const std::vector<RowRun>& keys : sides) {
          const TilePlan tiles = PlanTiles(queries, keys, GetParam());
          EXPECT_TRUE(PairsOf(tiles) ==
                      VisiblePairs(queries, keys, GetParam()));
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Masks, PlanTilesPropertyTest,
    ::testing::Values(AttentionMask::Causal(), AttentionMask::Full(),
                      AttentionMask::Window(0, 0), AttentionMask::Window(5, 0),
                      AttentionMask::Window(3, 4), AttentionMask::Window(-1, 2),
                      AttentionMask::Window(300, -1)),
    [](const auto& info) {
      const auto side = [](int64_t bound) {
        return bound < 0 ? std::string("All") : absl::StrCat(bound);
      };
      return absl::StrCat("Left", side(info.param.left), "Right",
                          side(info.param.right));
    });

// Property: batching loses no tile, pads none by more than its power of two,
// and merges short sequences into few calls.
TEST(BatchTilesTest, EveryTileIsInOneBatch) {
  std::mt19937 random(3);
  for (const LayoutSpec& spec : TestSpecs()) {
    const auto plan = PlanShards(PackFor(spec, 2, random), spec, 2);
    ASSERT_THAT(plan, IsOk());
    const TilePlan tiles = PlanTiles(RankRuns(*plan, 0), RankRuns(*plan, 1),
                                     AttentionMask::Causal());
    std::map<std::pair<int64_t, int64_t>, int> unseen;
    for (const Tile& tile : tiles.tiles) ++unseen[{tile.q_row, tile.k_row}];
    for (const TileBatch& batch : BatchTiles(tiles)) {
      for (const Tile& tile : batch.tiles) {
        --unseen[{tile.q_row, tile.k_row}];
        EXPECT_EQ(tile.kind, batch.kind);
        EXPECT_LE(tile.q_rows, batch.q_rows);
        EXPECT_LE(tile.k_rows, batch.k_rows);
        if (batch.tiles.size() == 1) {
          EXPECT_EQ(tile.q_rows, batch.q_rows);
          EXPECT_EQ(tile.k_rows, batch.k_rows);
        } else {
          EXPECT_LT(batch.q_rows, std::max<int64_t>(9, 2 * tile.q_rows));
          EXPECT_LT(batch.k_rows, std::max<int64_t>(9, 2 * tile.k_rows));
        }
      }
    }
    for (const auto& [tile, count] : unseen) EXPECT_EQ(count, 0);
  }
}

TEST(BatchTilesTest, ManyShortSequencesAreFewBatches) {
  // 1000 sequences of 1 to 64 tokens: one batch of each size 8, 16, 32, 64 and
  // kind, times the limit of 256 tiles.
  std::vector<int64_t> lengths;
  for (int i = 0; i < 1000; ++i) lengths.push_back(1 + i * 37 % 64);
  const ShardPlan plan = Plan(OneRow(lengths), 1);
  EXPECT_LE(BatchTiles(PlanTiles(RankRuns(plan, 0), RankRuns(plan, 0),
                                 AttentionMask::Causal()))
                .size(),
            16);
}

}  // namespace
}  // namespace cpfeed

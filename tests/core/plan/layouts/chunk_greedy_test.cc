#include "core/plan/layouts/chunk_greedy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "core/plan/layout_spec.h"
#include "core/plan/shard_plan.h"
#include "tests/core/plan/packs.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::Numbers;
using ::cpfeed::testing::OneRow;
using ::testing::ElementsAre;

TEST(ChunkAreasTest, SumsPositionsOfRealTokens) {
  // Position + 1:  1 2 3 4 | 5 . 1 2
  EXPECT_THAT(ChunkAreas(OneRow({5, 2}, {6, 2}), 8, 4), ElementsAre(10, 8));
}

// The rule itself, token by token.
std::vector<int64_t> SlowAreas(const PackedLengths& lengths,
                               int64_t total_tokens, int64_t chunk_size) {
  std::vector<int64_t> areas((total_tokens + chunk_size - 1) / chunk_size, 0);
  int64_t position = 0;
  for (int64_t s = 0; s < lengths.num_sequences(); ++s) {
    for (int64_t p = 0; p < lengths.padded[s]; ++p, ++position) {
      if (p < lengths.real[s]) areas[position / chunk_size] += p + 1;
    }
  }
  return areas;
}

TEST(ChunkAreasTest, AgreesWithTheRuleTokenByToken) {
  std::mt19937 random(3);
  for (int i = 0; i < 100; ++i) {
    const PackedLengths lengths = testing::RandomPack({}, random);
    const int64_t total = std::accumulate(lengths.padded.begin(),
                                          lengths.padded.end(), int64_t{0});
    for (const int64_t chunk_size : {1, 7, 128}) {
      EXPECT_EQ(ChunkAreas(lengths, total, chunk_size),
                SlowAreas(lengths, total, chunk_size));
    }
  }
}

TEST(GreedyOwnersTest, HeaviestFirstToTheLeastLoaded) {
  EXPECT_THAT(GreedyOwners({1, 2, 3, 4}, 2), ElementsAre(0, 1, 1, 0));
}

TEST(GreedyOwnersTest, FullRanksGetNoMore) {
  // 9 fills rank 0's load; the last chunk still goes there, as rank 1 is full.
  EXPECT_THAT(GreedyOwners({9, 1, 1, 1}, 2), ElementsAre(0, 1, 1, 0));
}

TEST(GreedyOwnersTest, TiesGoToTheLowerChunkAndRank) {
  EXPECT_THAT(GreedyOwners({5, 5, 5, 5, 5, 5}, 3),
              ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_THAT(GreedyOwners({0, 0, 0, 0}, 2), ElementsAre(0, 0, 1, 1));
}

// The rule itself: look through all ranks for each chunk.
std::vector<int> SlowOwners(const std::vector<int64_t>& costs, int cp_size) {
  std::vector<int> owners(costs.size(), -1);
  std::vector<int64_t> loads(cp_size, 0);
  std::vector<size_t> counts(cp_size, 0);
  for (size_t i = 0; i < costs.size(); ++i) {
    int heaviest = -1;
    for (size_t c = 0; c < costs.size(); ++c) {
      if (owners[c] >= 0) continue;
      if (heaviest < 0 || costs[c] > costs[heaviest]) {
        heaviest = static_cast<int>(c);
      }
    }
    int best = -1;
    for (int rank = 0; rank < cp_size; ++rank) {
      if (counts[rank] == costs.size() / cp_size) continue;
      if (best < 0 || loads[rank] < loads[best]) best = rank;
    }
    owners[heaviest] = best;
    loads[best] += costs[heaviest];
    ++counts[best];
  }
  return owners;
}

TEST(GreedyOwnersTest, AgreesWithTheRule) {
  std::mt19937 random(4);
  std::uniform_int_distribution<int64_t> cost(0, 12);
  for (const int cp_size : {1, 2, 3, 5, 8}) {
    for (int i = 0; i < 20; ++i) {
      std::vector<int64_t> costs(cp_size * (1 + i));
      for (int64_t& c : costs) c = cost(random);
      EXPECT_EQ(GreedyOwners(costs, cp_size), SlowOwners(costs, cp_size));
    }
  }
}

TEST(ChunkGreedyTest, RanksHoldTheirChunksInStreamOrder) {
  // Areas of the chunks: 10, 26, 42, 58.
  const auto plan = PlanShards(
      OneRow({16}), {.layout = Layout::kChunkGreedy, .chunk_size = 4}, 2);
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(LocalIndex(*plan, 0), Numbers("0..3 12..15"));
  EXPECT_EQ(LocalIndex(*plan, 1), Numbers("4..11"));
}

}  // namespace
}  // namespace cpfeed

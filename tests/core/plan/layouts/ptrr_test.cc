#include "core/plan/layouts/ptrr.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
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

struct DealExample {
  std::string name;
  std::vector<int64_t> costs;
  int cp_size;
  std::vector<std::vector<int>> groups;  // Blocks of each rank.
  std::vector<int64_t> sums;             // Their costs.
};

class PtrrOwnersTest : public ::testing::TestWithParam<DealExample> {};

TEST_P(PtrrOwnersTest, DealsInRoundsBackAndForth) {
  const DealExample& example = GetParam();
  const std::vector<int> owners = PtrrOwners(example.costs, example.cp_size);
  std::vector<std::vector<int>> groups(example.cp_size);
  std::vector<int64_t> sums(example.cp_size, 0);
  for (size_t block = 0; block < owners.size(); ++block) {
    groups[owners[block]].push_back(static_cast<int>(block));
    sums[owners[block]] += example.costs[block];
  }
  EXPECT_EQ(groups, example.groups);
  EXPECT_EQ(sums, example.sums);
}

INSTANTIATE_TEST_SUITE_P(
    Published, PtrrOwnersTest,
    ::testing::ValuesIn(std::vector<DealExample>{
        {"Documents4And8And4",
         {1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4},
         2,
         {{2, 3, 5, 6, 8, 11, 12, 13}, {0, 1, 4, 7, 9, 10, 14, 15}},
         {28, 28}},
        {"Documents4And12OnTwo",
         {1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12},
         2,
         {{1, 3, 4, 6, 8, 11, 12, 15}, {0, 2, 5, 7, 9, 10, 13, 14}},
         {44, 44}},
        {"Documents4And12OnFour",
         {1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12},
         4,
         {{3, 4, 8, 15}, {0, 7, 9, 14}, {2, 5, 10, 13}, {1, 6, 11, 12}},
         {22, 22, 22, 22}},
        {"Documents3And5",
         {1, 2, 3, 1, 2, 3, 4, 5},
         2,
         {{1, 3, 5, 7}, {0, 2, 4, 6}},
         {11, 10}},
        {"OneDocument",
         {1, 2, 3, 4, 5, 6, 7, 8},
         2,
         {{0, 3, 4, 7}, {1, 2, 5, 6}},
         {18, 18}},
        {"Unordered",
         {9, 14, 2, 20, 10, 15, 8, 14, 16, 19, 15, 3, 12, 1, 12, 10},
         4,
         {{3, 12, 13, 14}, {2, 4, 7, 9}, {1, 8, 11, 15}, {0, 5, 6, 10}},
         {45, 45, 43, 47}},
    }),
    [](const auto& info) { return info.param.name; });

TEST(PtrrBlockCostsTest, CountsKeyBlocksOfTheOwnSequence) {
  EXPECT_THAT(PtrrBlockCosts(OneRow({512}), 512), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(PtrrBlockCosts(OneRow({256, 256}), 512), ElementsAre(1, 2, 1, 2));
}

TEST(PtrrBlockCostsTest, BlocksOfPaddingCostNothing) {
  EXPECT_THAT(PtrrBlockCosts(OneRow({130}, {512}), 512),
              ElementsAre(1, 2, 0, 0));
}

// The rule itself, pair by pair.
std::vector<int64_t> SlowBlockCosts(const PackedLengths& lengths,
                                    int64_t total_tokens) {
  std::vector<int64_t> sequence_of(total_tokens, -1);  // -1 for padding.
  int64_t position = 0;
  for (int64_t s = 0; s < lengths.num_sequences(); ++s) {
    for (int64_t i = 0; i < lengths.real[s]; ++i) {
      sequence_of[position + i] = s;
    }
    position += lengths.padded[s];
  }
  const int64_t num_blocks =
      (total_tokens + kPtrrBlockSize - 1) / kPtrrBlockSize;
  std::vector<std::vector<bool>> visible(num_blocks,
                                         std::vector<bool>(num_blocks));
  for (int64_t query = 0; query < total_tokens; ++query) {
    if (sequence_of[query] < 0) continue;
    for (int64_t key = 0; key <= query; ++key) {
      if (sequence_of[key] == sequence_of[query]) {
        visible[query / kPtrrBlockSize][key / kPtrrBlockSize] = true;
      }
    }
  }
  std::vector<int64_t> costs;
  for (const std::vector<bool>& row : visible) {
    costs.push_back(std::count(row.begin(), row.end(), true));
  }
  return costs;
}

TEST(PtrrBlockCostsTest, AgreesWithTheRulePairByPair) {
  std::mt19937 random(20);
  for (int i = 0; i < 50; ++i) {
    const PackedLengths lengths = testing::RandomPack({}, random);
    const int64_t total = std::accumulate(lengths.padded.begin(),
                                          lengths.padded.end(), int64_t{0});
    EXPECT_EQ(PtrrBlockCosts(lengths, total), SlowBlockCosts(lengths, total));
  }
}

TEST(PtrrTest, RanksHoldTheirBlocksInStreamOrder) {
  const auto plan = PlanShards(OneRow({1024}), {.layout = Layout::kPtrr}, 2);
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(LocalIndex(*plan, 0), Numbers("0..127 384..639 896..1023"));
  EXPECT_EQ(LocalIndex(*plan, 1), Numbers("128..383 640..895"));
}

}  // namespace
}  // namespace cpfeed

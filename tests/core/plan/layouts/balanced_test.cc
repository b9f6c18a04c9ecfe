#include "core/plan/layouts/balanced.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "core/base/error.h"
#include "core/plan/layout_spec.h"
#include "core/plan/plan_metrics.h"
#include "core/plan/plan_verifier.h"
#include "core/plan/rank_plan.h"
#include "core/plan/shard_plan.h"
#include "core/plan/visible_keys.h"
#include "tests/core/plan/packs.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::OneRow;
using ::cpfeed::testing::RandomPack;
using ::cpfeed::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

ShardPlan Plan(const PackedLengths& lengths, int cp_size,
               LayoutSpec spec = {}) {
  spec.layout = Layout::kBalanced;
  const auto plan = PlanShards(lengths, spec, cp_size);
  EXPECT_THAT(plan, IsOk());
  EXPECT_THAT(VerifyPlan(*plan), IsOk());
  return *plan;
}

struct Pack {
  std::string name;
  std::vector<int64_t> lengths;
};

std::vector<int64_t> Repeat(int64_t length, int64_t times) {
  return std::vector<int64_t>(times, length);
}

std::vector<int64_t> With(std::vector<int64_t> lengths, int64_t more) {
  lengths.push_back(more);
  return lengths;
}

std::vector<int64_t> Primes() {
  std::vector<int64_t> lengths;
  for (const int64_t prime : {2, 3, 5, 7, 11, 13, 101, 997, 7919, 65537}) {
    for (int i = 0; i < 3; ++i) lengths.push_back(prime);
  }
  return lengths;
}

std::vector<int64_t> UpTo(int64_t most, int64_t times) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < times; ++i) lengths.push_back(1 + i % most);
  return lengths;
}

std::vector<int64_t> LogUniform(int seed) {
  std::mt19937 random(seed);
  const int64_t count = 1 + random() % 300;
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < count; ++i) {
    const double power = static_cast<double>(random()) / 4294967296.0;
    lengths.push_back(static_cast<int64_t>(std::exp(11 * power)));
  }
  return lengths;
}

// Packs that break planners.
std::vector<Pack> HardPacks() {
  std::vector<Pack> packs = {
      {"NoTokens", {0, 0}},
      {"OneToken", {1}},
      {"OneLong", {1000003}},
      {"AllOfLengthOne", Repeat(1, 3001)},
      {"AllOfLength300", Repeat(300, 350)},
      {"EqualButNotDividing", Repeat(4097, 63)},
      {"OneTo17", UpTo(17, 500)},
      {"Primes", Primes()},
      {"OneLongAndManyTiny", With(Repeat(10, 5000), 300000)},
      {"OneLongAndManyMiddle", With(Repeat(5000, 30), 300000)},
      {"WithEmptySequences", {0, 5000, 0, 0, 12345, 1, 0}},
      {"FewerThanRanks", {70001, 12, 999}},
      {"FewerTokensThanRanks", {1, 1, 1}},
      {"TwoGiants", {200000, 200000}},
  };
  for (int seed = 0; seed < 6; ++seed) {
    packs.push_back({"LogUniform" + std::to_string(seed), LogUniform(seed)});
  }
  return packs;
}

using PackAndSize = std::tuple<Pack, int>;

class BalancedPropertyTest : public ::testing::TestWithParam<PackAndSize> {
 protected:
  PackedLengths lengths() const {
    return OneRow(std::get<0>(GetParam()).lengths);
  }
  int cp_size() const { return std::get<1>(GetParam()); }
};

TEST_P(BalancedPropertyTest, TokensAreExactUnderEveryObjectiveAndMask) {
  const std::vector<int64_t>& real = std::get<0>(GetParam()).lengths;
  const int64_t total = std::accumulate(real.begin(), real.end(), int64_t{0});
  for (const Objective objective : {Objective::kArea, Objective::kTile}) {
    for (const VisibleKeys& mask :
         {VisibleKeys::Causal(), VisibleKeys::Full(), VisibleKeys::Window(0),
          VisibleKeys::Window(1000)}) {
      const ShardPlan plan =
          Plan(lengths(), cp_size(), {.objective = objective, .mask = mask});
      for (const RankPlan& rank : plan.ranks) {
        EXPECT_GE(rank.num_tokens, total / cp_size());
        EXPECT_LE(rank.num_tokens, (total + cp_size() - 1) / cp_size());
      }
    }
  }
}

// The bound that holds without exception: one row above the mean.
TEST_P(BalancedPropertyTest, AreaIsWithinOneRowOfTheMean) {
  const std::vector<int64_t>& real = std::get<0>(GetParam()).lengths;
  const int64_t longest = *std::max_element(real.begin(), real.end());
  for (const VisibleKeys& mask :
       {VisibleKeys::Causal(), VisibleKeys::Full(), VisibleKeys::Window(200)}) {
    const int64_t row =
        mask.left < 0 ? longest : std::min<int64_t>(longest, 201);
    const PlanMetrics metrics = ComputePlanMetrics(Plan(
        lengths(), cp_size(), {.objective = Objective::kArea, .mask = mask}));
    EXPECT_LE(static_cast<double>(metrics.area.max),
              metrics.area.mean + static_cast<double>(row));
  }
}

TEST_P(BalancedPropertyTest, TheSameLengthsGiveTheSamePlan) {
  EXPECT_EQ(Plan(lengths(), cp_size()).digest,
            Plan(lengths(), cp_size()).digest);
}

INSTANTIATE_TEST_SUITE_P(All, BalancedPropertyTest,
                         ::testing::Combine(::testing::ValuesIn(HardPacks()),
                                            ::testing::Values(2, 3, 5, 7, 12,
                                                              64, 256)),
                         [](const auto& info) {
                           return std::get<0>(info.param).name + "On" +
                                  std::to_string(std::get<1>(info.param));
                         });

TEST(BalancedTest, DropsThePaddingOfSlots) {
  const ShardPlan plan = Plan(OneRow({5, 3}, {8, 8}), 2);
  for (const RankPlan& rank : plan.ranks) {
    EXPECT_EQ(rank.num_tokens, 4);
    EXPECT_EQ(rank.pad_rows, 0);
  }
  EXPECT_EQ(ComputePlanMetrics(plan).padding_tokens, 0);
}

TEST(BalancedTest, KeepsPaddingAsRowsWithoutWeight) {
  std::mt19937 random(3);
  for (const int cp_size : {2, 3, 5, 16}) {
    for (int i = 0; i < 20; ++i) {
      const PackedLengths lengths = RandomPack({}, random);
      const PlanMetrics with =
          ComputePlanMetrics(Plan(lengths, cp_size, {.keep_padding = true}));
      const PlanMetrics without = ComputePlanMetrics(Plan(lengths, cp_size));
      EXPECT_EQ(with.padding_tokens,
                std::accumulate(lengths.padded.begin(), lengths.padded.end(),
                                int64_t{0}) -
                    std::accumulate(lengths.real.begin(), lengths.real.end(),
                                    int64_t{0}));
      EXPECT_EQ(with.area.max, without.area.max);
      EXPECT_LE(with.tokens.max, with.tokens.mean + 1);
    }
  }
}

TEST(BalancedTest, RoundsRanksUpToOneMultiple) {
  // 11 tokens on 3 ranks are 4 4 3: the multiple of 8 is 8 on each.
  const ShardPlan plan = Plan(OneRow({7, 4}), 3, {.token_multiple = 8});
  int64_t pad_rows = 0;
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(plan.ranks[rank].num_tokens, 8);
    pad_rows += plan.ranks[rank].pad_rows;
    const std::vector<int32_t> index = LocalIndex(plan, rank);
    for (int64_t i = 8 - plan.ranks[rank].pad_rows; i < 8; ++i) {
      EXPECT_EQ(index[i], -1);
    }
    EXPECT_EQ(ComputeLocalCuSeqlens(plan, rank).cu_seqlens_padded.back(),
              8 - plan.ranks[rank].pad_rows);
  }
  EXPECT_EQ(pad_rows, 3 * 8 - 11);
}

TEST(BalancedTest, KeepsPaddingAndRoundsUp) {
  const ShardPlan plan = Plan(OneRow({5, 3}, {8, 8}), 3,
                              {.keep_padding = true, .token_multiple = 4});
  for (const RankPlan& rank : plan.ranks) {
    EXPECT_EQ(rank.num_tokens, 8);
    EXPECT_GE(rank.pad_rows, 2);
  }
}

TEST(BalancedTest, RefusesAMultipleThatOverflows) {
  const LayoutSpec spec = {.layout = Layout::kBalanced,
                           .token_multiple = 2147483647};
  EXPECT_THAT(PlanShards(OneRow({8}), spec, 2),
              AllOf(StatusIs(absl::StatusCode::kInvalidArgument,
                             HasSubstr("token_multiple is 2147483647, which "
                                       "makes 2147483647 rows on each of 2 "
                                       "ranks; must be at most 2147483647")),
                    HasReason(kBatchTooLarge)));
}

TEST(BalancedTest, OneRankHasEverythingAsItIs) {
  const ShardPlan plan =
      Plan(OneRow({5, 3}, {8, 8}), 1, {.token_multiple = 32});
  EXPECT_EQ(plan.ranks[0].num_tokens, 16);
  EXPECT_EQ(plan.ranks[0].pad_rows, 0);
}

// With a cost for each token beside attention the sum is balanced; as ranks
// have equally many tokens, so is the area.
TEST(BalancedTest, LinearCostLeavesAreaBalanced) {
  const PlanMetrics metrics = ComputePlanMetrics(
      Plan(OneRow({40000, 3000, 17, 2500, 9000}), 5,
           {.objective = Objective::kArea, .linear_cost = 26600}));
  EXPECT_LE(metrics.area.imbalance(), 1.005);
}

}  // namespace
}  // namespace cpfeed

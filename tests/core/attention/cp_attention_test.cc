#include "core/attention/cp_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/attention/attention_mask.h"
#include "core/attention/make_kv_exchange.h"
#include "core/plan/layout.h"
#include "core/plan/shard_plan.h"
#include "tests/core/attention/attention_problem.h"
#include "tests/core/plan/packs.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr double kNone = -std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

ShardPlan Plan(const PackedLengths& lengths, int cp_size,
               const LayoutSpec& spec = {}) {
  const auto plan = PlanShards(lengths, spec, cp_size);
  EXPECT_THAT(plan, IsOk());
  return *plan;
}

AttentionProblem RandomProblem(PackedLengths lengths, AttentionMask mask,
                               uint32_t seed = 1) {
  AttentionProblem problem{.lengths = std::move(lengths), .mask = mask};
  FillAtRandom(problem, seed);
  return problem;
}

class EachExchangeTest : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, EachExchangeTest,
                         ::testing::ValuesIn(KvExchangeNames()),
                         [](const auto& info) { return info.param; });

TEST_P(EachExchangeTest, PadRowsAreZeroAndSeeNothing) {
  // Rank 1 holds nothing but padding.
  const ShardPlan plan = Plan(OneRow({2}, {8}), 2);
  AttentionProblem problem{.lengths = plan.lengths,
                           .num_heads = 2,
                           .num_kv_heads = 2,
                           .head_dim = 1,
                           .value_dim = 1};
  problem.q.assign(16, 0);
  problem.k.assign(16, 0);
  for (int p = 0; p < 8; ++p) {
    problem.v.insert(problem.v.end(), 2, p < 2 ? p + 1 : 50);
  }
  const auto answer = RunGroup(problem, plan, GetParam(), DType::kFloat32);
  ASSERT_THAT(answer, IsOk());
  EXPECT_THAT(answer->out,
              ElementsAre(1, 1, 1.5, 1.5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_EQ(answer->lse[0], 0);
  for (int i = 4; i < 16; ++i) EXPECT_EQ(answer->lse[i], kNone);
}

// Two heads of the same numbers, so that two ranks can share them.
std::vector<double> Twice(int64_t width, const std::vector<double>& head) {
  std::vector<double> heads;
  for (auto row = head.begin(); row != head.end(); row += width) {
    for (int copy = 0; copy < 2; ++copy) {
      heads.insert(heads.end(), row, row + width);
    }
  }
  return heads;
}

// v[t] = t and equal scores: each output is the mean of the positions so far.
// A kernel that took rank order for stream order would see 0 1 6 7 2 3 4 5.
TEST_P(EachExchangeTest, OrderIsThatOfTheSequence) {
  const ShardPlan plan = Plan(OneRow({8}), 2);
  AttentionProblem problem{.lengths = plan.lengths,
                           .num_heads = 2,
                           .num_kv_heads = 2,
                           .head_dim = 1,
                           .value_dim = 1,
                           .q = std::vector<double>(16),
                           .k = std::vector<double>(16),
                           .v = Twice(1, {0, 1, 2, 3, 4, 5, 6, 7})};
  const auto answer = RunGroup(problem, plan, GetParam(), DType::kFloat64);
  ASSERT_THAT(answer, IsOk());
  EXPECT_LE(
      MaxDifference(answer->out, Twice(1, {0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5})),
      1e-15);
}

AttentionProblem HandWorkedProblem(PackedLengths lengths) {
  return {.lengths = std::move(lengths),
          .num_heads = 2,
          .num_kv_heads = 2,
          .head_dim = 2,
          .value_dim = 2,
          .scale = 1 / std::sqrt(2.0),
          .q = Twice(2, {1, 0, 0, 1, 1, 1, 2, -1}),
          .k = Twice(2, {1, 0, 0, 1, 1, 1, -1, 1}),
          .v = Twice(2, {1, 2, 3, 4, 5, 6, 7, 8})};
}

TEST_P(EachExchangeTest, OneSequenceByHand) {
  const AttentionProblem problem = HandWorkedProblem(OneRow({4}));
  const auto answer =
      RunGroup(problem, Plan(problem.lengths, 2), GetParam(), DType::kFloat64);
  ASSERT_THAT(answer, IsOk());
  EXPECT_LE(MaxDifference(
                answer->out,
                Twice(2, {1, 2, 2.339523098653, 3.339523098653, 3.510469530454,
                          4.510469530454, 2.453566793918, 3.453566793918})),
            1e-11);
  EXPECT_LE(
      MaxDifference(answer->lse, Twice(1, {0.707106781187, 1.107940307657,
                                           2.100405301228, 1.910180420178})),
      1e-11);
}

TEST_P(EachExchangeTest, TwoSequencesByHand) {
  // Slots of 2 do not divide by 2 * 2: one rank's worth each.
  const AttentionProblem problem = HandWorkedProblem(OneRow({2, 2}));
  const auto answer = RunGroup(
      problem, Plan(problem.lengths, 2, {.layout = Layout::kContiguous}),
      GetParam(), DType::kFloat64);
  ASSERT_THAT(answer, IsOk());
  EXPECT_LE(MaxDifference(answer->out,
                          Twice(2, {1, 2, 2.339523098653, 3.339523098653, 5, 6,
                                    5.111614438414, 6.111614438414})),
            1e-11);
  EXPECT_LE(
      MaxDifference(answer->lse, Twice(1, {0.707106781187, 1.107940307657,
                                           1.414213562373, 0.764531697931})),
      1e-11);
}

TEST_P(EachExchangeTest, NothingRealGivesNothing) {
  for (const PackedLengths& lengths :
       {OneRow({0, 0}, {8, 0}), OneRow({0}, {16})}) {
    const AttentionProblem problem =
        RandomProblem(lengths, AttentionMask::Causal());
    const auto answer =
        RunGroup(problem, Plan(lengths, 2), GetParam(), DType::kFloat32);
    ASSERT_THAT(answer, IsOk());
    EXPECT_THAT(answer->out, Each(0));
    EXPECT_THAT(answer->lse, Each(kNone));
  }
}

TEST_P(EachExchangeTest, RanksWithoutAnyRowTakePart) {
  // 2 tokens over 4 ranks: ranks 0 and 2 have none.
  const ShardPlan plan =
      Plan(OneRow({2}), 4, {.layout = Layout::kContiguous, .uneven = true});
  const AttentionProblem problem =
      RandomProblem(plan.lengths, AttentionMask::Causal());
  const auto answer = RunGroup(problem, plan, GetParam(), DType::kFloat64);
  ASSERT_THAT(answer, IsOk());
  EXPECT_LE(MaxDifference(*answer, DenseAnswer(problem)), 1e-14);
}

TEST_P(EachExchangeTest, HeadsAndWidthsMayDiffer) {
  for (const auto& [heads, kv_heads, head_dim, value_dim] :
       std::vector<std::tuple<int, int, int, int>>{
           {6, 2, 3, 5}, {4, 4, 8, 4}, {8, 1, 1, 1}, {3, 1, 16, 24}}) {
    AttentionProblem problem{.lengths = OneRow({40, 3}, {40, 4}),
                             .num_heads = heads,
                             .num_kv_heads = kv_heads,
                             .head_dim = head_dim,
                             .value_dim = value_dim};
    FillAtRandom(problem, 5);
    const ShardPlan plan = Plan(problem.lengths, 2);
    if (!Does(GetParam(), problem, plan)) continue;
    const auto answer = RunGroup(problem, plan, GetParam(), DType::kFloat64);
    ASSERT_THAT(answer, IsOk());
    EXPECT_LE(MaxDifference(*answer, DenseAnswer(problem)), 1e-12);
  }
}

TEST_P(EachExchangeTest, LocalOutputDependsOnRemoteKeysAndValues) {
  // Position 7 of rank 0 sees position 2 of rank 1.
  const ShardPlan plan = Plan(OneRow({8}), 2);
  AttentionProblem problem =
      RandomProblem(plan.lengths, AttentionMask::Causal());
  const auto before = RunGroup(problem, plan, GetParam(), DType::kFloat32);
  ASSERT_THAT(before, IsOk());
  const int64_t row_width = problem.num_kv_heads * problem.head_dim;
  problem.k[2 * row_width] += 1;
  const auto after = RunGroup(problem, plan, GetParam(), DType::kFloat32);
  ASSERT_THAT(after, IsOk());
  const int64_t last_row = 7 * problem.num_heads;
  EXPECT_NE(before->lse[last_row], after->lse[last_row]);
  EXPECT_EQ(before->lse[0], after->lse[0]);
}

// A NaN stays in its sequence, forward and backward.
TEST_P(EachExchangeTest, OtherSequencesKeepEveryBit) {
  const ShardPlan plan = Plan(OneRow({8, 24, 8}), 2);
  AttentionProblem problem = RandomProblem(plan.lengths, AttentionMask::Full());
  const auto before = RunGroup(problem, plan, GetParam(), DType::kFloat32);
  ASSERT_THAT(before, IsOk());
  problem.v[20 * problem.num_kv_heads * problem.value_dim] = kNaN;
  problem.dout[21 * problem.num_heads * problem.value_dim] = kNaN;
  const auto after = RunGroup(problem, plan, GetParam(), DType::kFloat32);
  ASSERT_THAT(after, IsOk());
  const auto expect_equal = [](const std::vector<double>& a,
                               const std::vector<double>& b) {
    const size_t width = a.size() / 40;
    for (size_t i = 0; i < a.size(); ++i) {
      const size_t row = i / width;
      if (row >= 8 && row < 32) continue;
      EXPECT_EQ(a[i], b[i]) << "row " << row;
    }
  };
  expect_equal(before->out, after->out);
  expect_equal(before->lse, after->lse);
  expect_equal(before->dq, after->dq);
  expect_equal(before->dk, after->dk);
  expect_equal(before->dv, after->dv);
  EXPECT_TRUE(
      std::isnan(after->out[20 * problem.num_heads * problem.value_dim]));
  EXPECT_TRUE(
      std::isnan(after->dv[20 * problem.num_kv_heads * problem.value_dim]));
}

// Moving a token of the first document moves nothing in the others, but does in
// its own.
TEST_P(EachExchangeTest, LaterDocumentsDoNotSeeEarlierOnes) {
  const ShardPlan plan = Plan(OneRow({16, 48, 32}), 2);
  AttentionProblem problem =
      RandomProblem(plan.lengths, AttentionMask::Causal());
  const auto before = RunGroup(problem, plan, GetParam(), DType::kFloat32);
  problem.k[3 * problem.num_kv_heads * problem.head_dim] += 0.5;
  const auto after = RunGroup(problem, plan, GetParam(), DType::kFloat32);
  ASSERT_THAT(before, IsOk());
  ASSERT_THAT(after, IsOk());
  for (int64_t row = 0; row < 96; ++row) {
    const bool same = before->lse[row * problem.num_heads] ==
                      after->lse[row * problem.num_heads];
    EXPECT_EQ(same, row < 3 || row >= 16) << "row " << row;
  }
}

TEST_P(EachExchangeTest, TwoRunsGiveTheSameBits) {
  const ShardPlan plan = Plan(OneRow({120, 16, 700}, {120, 16, 704}), 4);
  const AttentionProblem problem =
      RandomProblem(plan.lengths, AttentionMask::Causal());
  for (const DType dtype : {DType::kFloat32, DType::kBfloat16}) {
    const auto first = RunGroup(problem, plan, GetParam(), dtype);
    const auto second = RunGroup(problem, plan, GetParam(), dtype);
    ASSERT_THAT(first, IsOk());
    ASSERT_THAT(second, IsOk());
    EXPECT_EQ(MaxDifference(*first, *second), 0);
  }
}

// 698 real tokens in a slot of 704 over 4 ranks: the real rows of the ranks are
// 170, 176, 176 and 176, not 174 each. Under the full mask each one counts.
TEST_P(EachExchangeTest, RealLengthsNeedNotDivide) {
  const ShardPlan plan = Plan(OneRow({698}, {704}), 4);
  const AttentionProblem problem =
      RandomProblem(plan.lengths, AttentionMask::Full());
  const auto answer = RunGroup(problem, plan, GetParam(), DType::kFloat64);
  ASSERT_THAT(answer, IsOk());
  EXPECT_LE(MaxDifference(*answer, DenseAnswer(problem)), 1e-12);
}

// With one rank there is nothing to exchange, so nothing to refuse.
TEST_P(EachExchangeTest, OneRankDoesEveryMaskAndLayout) {
  for (const LayoutSpec& spec : TestSpecs()) {
    const ShardPlan plan = Plan(OneRow({128, 256}), 1, spec);
    const AttentionProblem problem =
        RandomProblem(plan.lengths, AttentionMask::Window(9, 3));
    const auto answer = RunGroup(problem, plan, GetParam(), DType::kFloat64);
    ASSERT_THAT(answer, IsOk());
    EXPECT_LE(MaxDifference(*answer, DenseAnswer(problem)), 1e-12);
  }
}

}  // namespace
}  // namespace cpfeed::testing

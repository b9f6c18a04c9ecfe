#include "core/attention/cp_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/attention/attention_mask.h"
#include "core/base/error.h"
#include "core/plan/layout.h"
#include "core/plan/shard_plan.h"
#include "tests/core/attention/attention_problem.h"
#include "tests/core/plan/packs.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

bool RingDoes(const LayoutSpec& spec, const AttentionMask& mask) {
  return !mask.is_window() && (spec.layout == Layout::kContiguous ||
                               spec.layout == Layout::kHeadTailPerRow ||
                               spec.layout == Layout::kHeadTailPerSequence);
}

// Inputs are exact in every dtype, values are below 1 and scores below 4, so
// the errors are those of the kernel's arithmetic: a few units in the last
// place of float64 and float32 (sums of a few hundred terms), and two roundings
// to 8 bits in bfloat16 (the probabilities and the result).
double Tolerance(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return 1e-13;
    case DType::kFloat32:
      return 3e-6;
    default:
      return 2e-2;
  }
}

struct Matrix {
  std::string exchange;
  AttentionMask mask;
  DType dtype;
};

class CpAttentionTest : public ::testing::TestWithParam<Matrix> {};

// All layouts, 1 to 4 ranks, packs with empty sequences, padding, lengths of 0
// to hundreds. Padding holds NaN, which must not come out anywhere.
TEST_P(CpAttentionTest, GivesWhatOneDeviceGives) {
  const auto& [exchange, mask, dtype] = GetParam();
  std::mt19937 random(11);
  std::vector<LayoutSpec> specs = TestSpecs();
  specs.push_back({.layout = Layout::kContiguous, .uneven = true});
  for (const LayoutSpec& spec : specs) {
    for (const int cp_size : {1, 2, 3, 4}) {
      if (exchange == "ring" && !RingDoes(spec, mask)) continue;
      SCOPED_TRACE(absl::StrCat(LayoutName(spec.layout), " over ", cp_size));
      const ShardPlan plan =
          Plan(PackFor(spec, cp_size, random), cp_size, spec);
      const AttentionProblem problem = RandomProblem(plan.lengths, mask);
      const AttentionAnswer expected = DenseAnswer(problem);
      const auto answer = RunGroup(problem, plan, exchange, dtype);
      ASSERT_THAT(answer, IsOk());
      EXPECT_LE(MaxDifference(answer->out, expected.out), Tolerance(dtype));
      EXPECT_LE(MaxDifference(answer->lse, expected.lse), Tolerance(dtype));
      EXPECT_TRUE(answer->pad_rows_are_empty);
    }
  }
}

std::vector<Matrix> AllOfMatrix() {
  std::vector<Matrix> all;
  for (const DType dtype :
       {DType::kFloat64, DType::kFloat32, DType::kBfloat16}) {
    for (const std::string exchange : {"ring", "allgather"}) {
      all.push_back({exchange, AttentionMask::Causal(), dtype});
      all.push_back({exchange, AttentionMask::Full(), dtype});
    }
    all.push_back({"allgather", AttentionMask::Window(5, 0), dtype});
    all.push_back({"allgather", AttentionMask::Window(200, 7), dtype});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, CpAttentionTest,
                         ::testing::ValuesIn(AllOfMatrix()),
                         [](const auto& info) {
                           const AttentionMask& mask = info.param.mask;
                           return absl::StrCat(
                               info.param.exchange, "_",
                               mask.is_window()
                                   ? absl::StrCat("window", mask.left)
                                   : MaskName(mask),
                               "_", DTypeName(info.param.dtype));
                         });

class EachExchangeTest : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, EachExchangeTest,
                         ::testing::Values("ring", "allgather"),
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

// v[t] = t and equal scores: each output is the mean of the positions so far.
// A kernel that took rank order for stream order would see 0 1 6 7 2 3 4 5.
TEST_P(EachExchangeTest, OrderIsThatOfTheSequence) {
  const ShardPlan plan = Plan(OneRow({8}), 2);
  AttentionProblem problem{.lengths = plan.lengths,
                           .num_heads = 1,
                           .num_kv_heads = 1,
                           .head_dim = 1,
                           .value_dim = 1,
                           .q = std::vector<double>(8),
                           .k = std::vector<double>(8),
                           .v = {0, 1, 2, 3, 4, 5, 6, 7}};
  const auto answer = RunGroup(problem, plan, GetParam(), DType::kFloat64);
  ASSERT_THAT(answer, IsOk());
  EXPECT_LE(MaxDifference(answer->out, {0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5}),
            1e-15);
}

AttentionProblem HandWorkedProblem(PackedLengths lengths) {
  return {.lengths = std::move(lengths),
          .num_heads = 1,
          .num_kv_heads = 1,
          .head_dim = 2,
          .value_dim = 2,
          .scale = 1 / std::sqrt(2.0),
          .q = {1, 0, 0, 1, 1, 1, 2, -1},
          .k = {1, 0, 0, 1, 1, 1, -1, 1},
          .v = {1, 2, 3, 4, 5, 6, 7, 8}};
}

TEST_P(EachExchangeTest, OneSequenceByHand) {
  const AttentionProblem problem = HandWorkedProblem(OneRow({4}));
  const auto answer =
      RunGroup(problem, Plan(problem.lengths, 2), GetParam(), DType::kFloat64);
  ASSERT_THAT(answer, IsOk());
  EXPECT_LE(MaxDifference(answer->out,
                          {1, 2, 2.339523098653, 3.339523098653, 3.510469530454,
                           4.510469530454, 2.453566793918, 3.453566793918}),
            1e-11);
  EXPECT_LE(MaxDifference(answer->lse, {0.707106781187, 1.107940307657,
                                        2.100405301228, 1.910180420178}),
            1e-11);
}

TEST_P(EachExchangeTest, TwoSequencesByHand) {
  // Slots of 2 do not divide by 2 * 2: one rank's worth each.
  const AttentionProblem problem = HandWorkedProblem(OneRow({2, 2}));
  const auto answer = RunGroup(
      problem, Plan(problem.lengths, 2, {.layout = Layout::kContiguous}),
      GetParam(), DType::kFloat64);
  ASSERT_THAT(answer, IsOk());
  EXPECT_LE(MaxDifference(answer->out, {1, 2, 2.339523098653, 3.339523098653, 5,
                                        6, 5.111614438414, 6.111614438414}),
            1e-11);
  EXPECT_LE(MaxDifference(answer->lse, {0.707106781187, 1.107940307657,
                                        1.414213562373, 0.764531697931}),
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
  EXPECT_LE(MaxDifference(answer->out, DenseAnswer(problem).out), 1e-14);
}

TEST_P(EachExchangeTest, HeadsAndWidthsMayDiffer) {
  for (const auto& [heads, kv_heads, head_dim, value_dim] :
       std::vector<std::tuple<int, int, int, int>>{
           {6, 2, 3, 5}, {5, 5, 8, 4}, {8, 1, 1, 1}, {3, 1, 16, 24}}) {
    AttentionProblem problem{.lengths = OneRow({40, 3}, {40, 4}),
                             .num_heads = heads,
                             .num_kv_heads = kv_heads,
                             .head_dim = head_dim,
                             .value_dim = value_dim};
    FillAtRandom(problem, 5);
    const auto answer = RunGroup(problem, Plan(problem.lengths, 2), GetParam(),
                                 DType::kFloat64);
    ASSERT_THAT(answer, IsOk());
    EXPECT_LE(MaxDifference(answer->out, DenseAnswer(problem).out), 1e-13);
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

TEST_P(EachExchangeTest, OtherSequencesKeepEveryBit) {
  const ShardPlan plan = Plan(OneRow({8, 24, 8}), 2);
  AttentionProblem problem = RandomProblem(plan.lengths, AttentionMask::Full());
  const auto before = RunGroup(problem, plan, GetParam(), DType::kFloat32);
  ASSERT_THAT(before, IsOk());
  const int64_t row_width = problem.num_kv_heads * problem.value_dim;
  problem.v[20 * row_width] = kNaN;  // In the second sequence.
  const auto after = RunGroup(problem, plan, GetParam(), DType::kFloat32);
  ASSERT_THAT(after, IsOk());
  const int64_t width = problem.num_heads * problem.value_dim;
  for (int64_t i = 0; i < 40 * width; ++i) {
    const int64_t row = i / width;
    if (row >= 8 && row < 32) continue;
    EXPECT_EQ(before->out[i], after->out[i]) << "row " << row;
  }
  EXPECT_TRUE(std::isnan(after->out[20 * width]));
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
    EXPECT_EQ(first->out, second->out);
    EXPECT_EQ(first->lse, second->lse);
  }
}

// Splitting must not cost accuracy: partial results merge in float32.
TEST_P(EachExchangeTest, WorstErrorIsAtMostTwiceThatOfOneRank) {
  const PackedLengths lengths = OneRow({1000, 48, 504}, {1008, 48, 504});
  const AttentionProblem problem =
      RandomProblem(lengths, AttentionMask::Causal());
  const AttentionAnswer expected = DenseAnswer(problem);
  for (const DType dtype : {DType::kFloat32, DType::kBfloat16}) {
    const auto error = [&](int cp_size) {
      const auto answer =
          RunGroup(problem, Plan(lengths, cp_size), GetParam(), dtype);
      EXPECT_THAT(answer, IsOk());
      return MaxDifference(answer->out, expected.out);
    };
    const double one = error(1);
    EXPECT_GT(one, 0);
    for (const int cp_size : {2, 3, 4}) {
      EXPECT_LE(error(cp_size), 2 * one) << cp_size << " ranks";
    }
  }
}

// Each rank receives the keys and values of all others once, compressed to the
// kv heads: (cp_size - 1) / cp_size * T * kv elements.
TEST_P(EachExchangeTest, BytesReceivedAreTheOthersKeysAndValues) {
  AttentionProblem problem{.lengths = OneRow({24, 48, 0, 24}),
                           .num_heads = 8,
                           .num_kv_heads = 2,
                           .head_dim = 4,
                           .value_dim = 6};
  FillAtRandom(problem, 1);
  for (const int cp_size : {1, 2, 3, 4}) {
    const auto answer = RunGroup(problem, Plan(problem.lengths, cp_size),
                                 GetParam(), DType::kFloat32);
    ASSERT_THAT(answer, IsOk());
    EXPECT_THAT(answer->bytes_received,
                Each(96 / cp_size * (cp_size - 1) * 2 * (4 + 6) * 4));
  }
}

// With one rank there is nothing to exchange, so nothing to refuse.
TEST_P(EachExchangeTest, OneRankDoesEveryMaskAndLayout) {
  for (const LayoutSpec& spec : TestSpecs()) {
    const ShardPlan plan = Plan(OneRow({128, 256}), 1, spec);
    const AttentionProblem problem =
        RandomProblem(plan.lengths, AttentionMask::Window(9, 3));
    const auto answer = RunGroup(problem, plan, GetParam(), DType::kFloat64);
    ASSERT_THAT(answer, IsOk());
    EXPECT_LE(MaxDifference(answer->out, DenseAnswer(problem).out), 1e-13);
  }
}

TEST(CpAttentionRefusalTest, RingRefusesWindowsByName) {
  const AttentionProblem problem =
      RandomProblem(OneRow({8}), AttentionMask::Window(3, 0));
  const auto answer =
      RunGroup(problem, Plan(problem.lengths, 2), "ring", DType::kFloat32);
  EXPECT_THAT(answer, StatusIs(absl::StatusCode::kUnimplemented,
                               AllOf(HasSubstr("exchange ring"),
                                     HasSubstr("window(left 3, right 0)"))));
  EXPECT_THAT(answer, HasReason(kNotSupported));
}

TEST(CpAttentionRefusalTest, RingRefusesOtherLayoutsByName) {
  const AttentionProblem problem =
      RandomProblem(OneRow({8}), AttentionMask::Causal());
  EXPECT_THAT(
      RunGroup(problem, Plan(problem.lengths, 2, {.layout = Layout::kStriped}),
               "ring", DType::kFloat32),
      StatusIs(absl::StatusCode::kUnimplemented,
               AllOf(HasSubstr("exchange ring"), HasSubstr("STRIPED"))));
}

TEST(CpAttentionRefusalTest, UnknownExchangeIsRefusedWithTheKnownOnes) {
  const AttentionProblem problem =
      RandomProblem(OneRow({8}), AttentionMask::Causal());
  EXPECT_THAT(
      RunGroup(problem, Plan(problem.lengths, 2), "addtoall", DType::kFloat32),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("\"addtoall\""), HasSubstr("ring, allgather"))));
}

TEST(CpAttentionRefusalTest, Float16HasNoKernelHere) {
  const AttentionProblem problem =
      RandomProblem(OneRow({8}), AttentionMask::Causal());
  EXPECT_THAT(
      RunGroup(problem, Plan(problem.lengths, 2), "ring", DType::kFloat16),
      StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("Half")));
}

TEST(CpAttentionRefusalTest, MaskBelowMinusOneIsRefused) {
  const AttentionProblem problem =
      RandomProblem(OneRow({8}), AttentionMask::Window(-2, 0));
  EXPECT_THAT(
      RunGroup(problem, Plan(problem.lengths, 1), "allgather", DType::kFloat32),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("-2")));
}

TEST(CpAttentionRefusalTest, HeadsMustDivide) {
  AttentionProblem problem{
      .lengths = OneRow({8}), .num_heads = 3, .num_kv_heads = 2};
  FillAtRandom(problem, 1);
  EXPECT_THAT(
      RunGroup(problem, Plan(problem.lengths, 2), "ring", DType::kFloat32),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("q is [4, 3, 8]"), HasSubstr("k's 2 heads"))));
}

}  // namespace
}  // namespace cpfeed::testing

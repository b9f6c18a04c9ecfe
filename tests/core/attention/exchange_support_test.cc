// What exchanges cannot do, and how they say so.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/attention/attention_heads.h"
#include "core/attention/attention_mask.h"
#include "core/attention/cp_attention.h"
#include "core/base/error.h"
#include "core/plan/layout.h"
#include "core/plan/shard_plan.h"
#include "tests/core/attention/attention_problem.h"
#include "tests/core/plan/packs.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ShardPlan Plan(const PackedLengths& lengths, int cp_size,
               const LayoutSpec& spec = {}) {
  const auto plan = PlanShards(lengths, spec, cp_size);
  EXPECT_THAT(plan, IsOk());
  return *plan;
}

AttentionProblem RandomProblem(PackedLengths lengths, AttentionMask mask) {
  AttentionProblem problem{.lengths = std::move(lengths), .mask = mask};
  FillAtRandom(problem, 1);
  return problem;
}

TEST(HeadsAtTest, RanksShareHeadsEvenlyOrHeadsRanks) {
  // 8 query heads over 2 and 4 ranks; 2 kv heads over 2 and 4 ranks.
  EXPECT_EQ(HeadsAt(8, 2, 1), (HeadRange{4, 4}));
  EXPECT_EQ(HeadsAt(8, 4, 3), (HeadRange{6, 2}));
  EXPECT_EQ(HeadsAt(2, 2, 1), (HeadRange{1, 1}));
  EXPECT_EQ(HeadsAt(2, 4, 1), (HeadRange{0, 1}));
  EXPECT_EQ(HeadsAt(2, 4, 2), (HeadRange{1, 1}));
}

TEST(CheckHeadSharesTest, FortyQueryAndEightKvHeadsFitFiveSizes) {
  std::vector<int> fitting;
  for (int cp_size = 1; cp_size <= 40; ++cp_size) {
    if (CheckHeadShares("alltoall", {40, 8}, "cp_size", cp_size).ok()) {
      fitting.push_back(cp_size);
    }
  }
  EXPECT_THAT(fitting, ElementsAre(1, 2, 4, 8, 40));
}

TEST(ExchangeSupportTest, AlltoallNamesHeadsAndSize) {
  AttentionProblem problem{
      .lengths = OneRow({8}), .num_heads = 28, .num_kv_heads = 7};
  FillAtRandom(problem, 1);
  const auto answer =
      RunGroup(problem, Plan(problem.lengths, 2), "alltoall", DType::kFloat32);
  EXPECT_THAT(answer,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("exchange alltoall cannot share 28 query and "
                                 "7 kv heads over cp_size 2")));
  EXPECT_THAT(answer, HasReason(kNotDivisible));
}

TEST(ExchangeSupportTest, HierarchicalNamesItsInnerSize) {
  AttentionProblem problem{
      .lengths = OneRow({24}), .num_heads = 3, .num_kv_heads = 3};
  FillAtRandom(problem, 1);
  EXPECT_THAT(RunGroup(problem, Plan(problem.lengths, 3), "hierarchical",
                       DType::kFloat32, {.inner_size = 2}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("inner_size 2; must divide cp_size 3")));
  EXPECT_THAT(RunGroup(problem, Plan(problem.lengths, 2), "hierarchical",
                       DType::kFloat32, {.inner_size = 2}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("3 query and 3 kv heads over inner_size 2")));
  EXPECT_THAT(RunGroup(problem, Plan(problem.lengths, 3), "hierarchical",
                       DType::kFloat32, {.inner_size = 0}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("inner_size is 0; must be at least 1")));
}

TEST(ExchangeSupportTest, HierarchicalRefusesWindowsByName) {
  const AttentionProblem problem =
      RandomProblem(OneRow({8}), AttentionMask::Window(3, 0));
  EXPECT_THAT(RunGroup(problem, Plan(problem.lengths, 2), "hierarchical",
                       DType::kFloat32),
              StatusIs(absl::StatusCode::kUnimplemented,
                       AllOf(HasSubstr("exchange hierarchical"),
                             HasSubstr("window(left 3, right 0)"))));
}

TEST(ExchangeSupportTest, RingRefusesWindowsByName) {
  const AttentionProblem problem =
      RandomProblem(OneRow({8}), AttentionMask::Window(3, 0));
  const auto answer =
      RunGroup(problem, Plan(problem.lengths, 2), "ring", DType::kFloat32);
  EXPECT_THAT(answer, StatusIs(absl::StatusCode::kUnimplemented,
                               AllOf(HasSubstr("exchange ring"),
                                     HasSubstr("window(left 3, right 0)"))));
  EXPECT_THAT(answer, HasReason(kNotSupported));
}

TEST(ExchangeSupportTest, RingRefusesOtherLayoutsByName) {
  const AttentionProblem problem =
      RandomProblem(OneRow({8}), AttentionMask::Causal());
  EXPECT_THAT(
      RunGroup(problem, Plan(problem.lengths, 2, {.layout = Layout::kStriped}),
               "ring", DType::kFloat32),
      StatusIs(absl::StatusCode::kUnimplemented,
               AllOf(HasSubstr("exchange ring"), HasSubstr("STRIPED"))));
}

TEST(ExchangeSupportTest, UnknownExchangeIsRefusedWithTheKnownOnes) {
  const AttentionProblem problem =
      RandomProblem(OneRow({8}), AttentionMask::Causal());
  EXPECT_THAT(
      RunGroup(problem, Plan(problem.lengths, 2), "addtoall", DType::kFloat32),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("\"addtoall\""),
                     HasSubstr(
                         "ring, allgather, alltoall, hierarchical, planned"))));
}

TEST(ExchangeSupportTest, Float16HasNoKernelHere) {
  const AttentionProblem problem =
      RandomProblem(OneRow({8}), AttentionMask::Causal());
  EXPECT_THAT(
      RunGroup(problem, Plan(problem.lengths, 2), "ring", DType::kFloat16),
      StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("Half")));
}

TEST(ExchangeSupportTest, MaskBelowMinusOneIsRefused) {
  const AttentionProblem problem =
      RandomProblem(OneRow({8}), AttentionMask::Window(-2, 0));
  EXPECT_THAT(
      RunGroup(problem, Plan(problem.lengths, 1), "allgather", DType::kFloat32),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("-2")));
}

TEST(ExchangeSupportTest, HeadsMustDivide) {
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

// The gated delta rule over every layout and number of ranks, beside the slow
// one.

#include "core/linear_attention/gated_delta.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/max.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/comm/loopback_communicator.h"
#include "core/plan/layout.h"
#include "core/plan/shard_plan.h"
#include "tests/core/linear_attention/delta_problem.h"
#include "tests/core/plan/packs.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed::testing {
namespace {

using ::testing::HasSubstr;

constexpr GatedDeltaOptions kOptions = {.key_heads = 2,
                                        .value_heads = 4,
                                        .key_dim = 3,
                                        .value_dim = 5,
                                        .scale = 0.5};

// Relative to the largest number of the reference.
double Error(const DeltaAnswer& answer, const DeltaAnswer& reference) {
  double most = 0;
  for (const auto& [name, expected] : reference) {
    if (expected.numel() == 0) continue;
    const at::Tensor given = answer.at(name).to(at::kDouble);
    EXPECT_EQ(given.sizes(), expected.sizes()) << name;
    const double size = at::max(expected.abs()).item<double>() + 1e-3;
    const double error =
        at::max((given - expected).abs()).item<double>() / size;
    EXPECT_TRUE(error < 1e9) << name << ": " << error;  // Not NaN.
    most = std::max(most, error);
  }
  return most;
}

using LayoutAndSize = std::tuple<LayoutSpec, int>;

class GatedDeltaTest : public ::testing::TestWithParam<LayoutAndSize> {};

std::vector<LayoutSpec> Layouts() {
  return {{.layout = Layout::kContiguous, .uneven = true},
          {.layout = Layout::kHeadTailPerSequence},
          {.layout = Layout::kHeadTailPerRow},
          {.layout = Layout::kStriped, .stripe_width = 2},
          {.layout = Layout::kBalanced},
          {.layout = Layout::kBalanced, .token_multiple = 4}};
}

// Slots of 48 divide for every layout and size here.
PackedLengths Lengths() {
  return OneRow({41, 0, 3, 48, 1, 20}, {48, 48, 48, 48, 48, 48});
}

struct Solved {
  DeltaProblem problem;
  DeltaAnswer answer;
};

// Solved once for all layouts and sizes.
const Solved& SolvedProblem(bool with_conv, at::ScalarType dtype) {
  static auto* const solved =
      new std::map<std::pair<bool, at::ScalarType>, Solved>();
  const auto [found, is_new] = solved->try_emplace({with_conv, dtype});
  if (is_new) {
    found->second.problem = RandomProblem(Lengths(), kOptions, with_conv,
                                          /*width=*/4, dtype, 7);
    found->second.answer = SlowAnswer(found->second.problem);
  }
  return found->second;
}

TEST_P(GatedDeltaTest, IsTheSlowAnswer) {
  const auto& [layout, cp_size] = GetParam();
  const auto plan = PlanShards(Lengths(), layout, cp_size);
  ASSERT_THAT(plan, IsOk());
  for (const bool with_conv : {false, true}) {
    SCOPED_TRACE(with_conv);
    const auto& [problem, slow] = SolvedProblem(with_conv, at::kDouble);
    const DeltaAnswer answer = GroupAnswer(problem, *plan);
    // Sums of some dozens of terms in another order.
    EXPECT_LT(Error(answer, slow), 1e-11);
    // Two runs give the same bits.
    const DeltaAnswer again = GroupAnswer(problem, *plan);
    for (const auto& [name, tensor] : answer) {
      EXPECT_TRUE(at::equal(tensor, again.at(name))) << name;
    }
  }
}

// With float32 the error may be at most twice that of one rank.
TEST_P(GatedDeltaTest, RanksCostNoAccuracy) {
  const auto& [layout, cp_size] = GetParam();
  const auto& [problem, reference] = SolvedProblem(true, at::kFloat);
  const auto one = PlanShards(Lengths(), layout, 1);
  const auto plan = PlanShards(Lengths(), layout, cp_size);
  ASSERT_THAT(one, IsOk());
  ASSERT_THAT(plan, IsOk());
  const double error_of_one = Error(GroupAnswer(problem, *one), reference);
  EXPECT_LT(error_of_one, 1e-5);
  EXPECT_LT(Error(GroupAnswer(problem, *plan), reference),
            2 * error_of_one + 1e-7);
}

INSTANTIATE_TEST_SUITE_P(Matrix, GatedDeltaTest,
                         ::testing::Combine(::testing::ValuesIn(Layouts()),
                                            ::testing::Values(1, 2, 3, 4, 8)),
                         [](const auto& info) {
                           const LayoutSpec& spec = std::get<0>(info.param);
                           return std::string(LayoutName(spec.layout)) + "_" +
                                  (spec.token_multiple > 1 ? "multiple_" : "") +
                                  std::to_string(std::get<1>(info.param));
                         });

// A document is alone: what stands in another changes no bit of it.
TEST(GatedDeltaIsolationTest, DocumentsDoNotSeeEachOther) {
  const PackedLengths lengths = OneRow({7, 9, 5});
  const auto plan = PlanShards(lengths, {.layout = Layout::kBalanced}, 3);
  ASSERT_THAT(plan, IsOk());
  DeltaProblem problem =
      RandomProblem(lengths, kOptions, true, 4, at::kFloat, 3);
  const DeltaAnswer before = GroupAnswer(problem, *plan);
  problem.in["mixed_qkv"].narrow(0, 7, 9).mul_(-3);
  problem.in["a"].narrow(0, 7, 9).add_(1);
  const DeltaAnswer after = GroupAnswer(problem, *plan);
  for (const char* name : {"out", "dmixed_qkv", "da", "db"}) {
    const auto same = [&](int64_t begin, int64_t length) {
      return at::equal(before.at(name).narrow(0, begin, length),
                       after.at(name).narrow(0, begin, length));
    };
    EXPECT_TRUE(same(0, 7)) << name;
    EXPECT_TRUE(same(16, 5)) << name;
    EXPECT_FALSE(same(7, 9)) << name;
  }
}

// Rows [begin, begin + length) are those of the spoilt document.
void ExpectOnlyTheSecondIsSpoilt(const DeltaAnswer& answer,
                                 const DeltaAnswer& clean, int64_t begin,
                                 int64_t length, int64_t rows) {
  for (const char* name : {"out", "dq", "dk", "dv", "dg", "dbeta"}) {
    const auto same = [&](int64_t first, int64_t count) {
      return at::equal(answer.at(name).narrow(0, first, count),
                       clean.at(name).narrow(0, first, count));
    };
    EXPECT_TRUE(same(0, begin)) << name;
    EXPECT_TRUE(same(begin + length, rows - begin - length)) << name;
  }
}

// Over 6 ranks of 5 tokens: the document in the middle, [8, 17), begins on rank
// 1 and ends on rank 3, where the third begins, which goes on to the last.
TEST(GatedDeltaIsolationTest, AnOverflowStaysInItsDocument) {
  const PackedLengths lengths = OneRow({8, 9, 13});
  const auto plan = PlanShards(lengths, {.layout = Layout::kBalanced}, 6);
  ASSERT_THAT(plan, IsOk());
  DeltaProblem problem =
      RandomProblem(lengths, kOptions, false, 4, at::kFloat, 3);
  const DeltaAnswer clean = GroupAnswer(problem, *plan);
  problem.in["v"].narrow(0, 9, 1).fill_(std::numeric_limits<float>::infinity());
  // A gradient too: backwards it would reach the documents before.
  problem.dout.narrow(0, 16, 1).fill_(std::numeric_limits<float>::infinity());
  ExpectOnlyTheSecondIsSpoilt(GroupAnswer(problem, *plan), clean, 8, 9, 30);
}

// Final states are made for those who ask: they are as many as sequences.
TEST(GatedDeltaStatesTest, AreGivenOnRequest) {
  const PackedLengths lengths = OneRow({8});
  const auto plan = std::make_shared<const ShardPlan>(
      *PlanShards(lengths, {.layout = Layout::kBalanced}, 1));
  auto ranks = MakeLoopbackGroup(1);
  const auto group = MakePartGroup(plan, std::move(ranks[0]));
  const DeltaProblem problem =
      RandomProblem(lengths, kOptions, true, 4, at::kFloat, 1);
  const GatedDeltaInputs in = {
      problem.in.at("mixed_qkv"), problem.in.at("conv_weight"),
      problem.in.at("a"),         problem.in.at("b"),
      problem.in.at("a_log"),     problem.in.at("dt_bias")};
  const auto bare = GatedDelta(in, kOptions, group);
  ASSERT_THAT(bare, IsOk());
  EXPECT_FALSE(bare->final_states.defined());
  const auto detailed = GatedDelta(in, kOptions, group, /*with_details=*/true);
  ASSERT_THAT(detailed, IsOk());
  EXPECT_EQ(detailed->final_states.size(0), 1);
  EXPECT_TRUE(at::equal(detailed->out, bare->out));
}

// Random packs, with empty documents and parts.
TEST(GatedDeltaRandomTest, AnyPackOnAnyNumberOfRanks) {
  std::mt19937 random(5);
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE(round);
    std::vector<int64_t> lengths;
    for (int i = static_cast<int>(random() % 5) + 1; i > 0; --i) {
      lengths.push_back(random() % 3 == 0 ? 0 : random() % 12);
    }
    lengths.push_back(1);  // An empty stream is no batch.
    const PackedLengths pack = OneRow(lengths);
    const int cp_size = static_cast<int>(random() % 9) + 1;
    const auto plan = PlanShards(pack, {.layout = Layout::kBalanced}, cp_size);
    ASSERT_THAT(plan, IsOk());
    const DeltaProblem problem = RandomProblem(
        pack, kOptions, true, static_cast<int64_t>(random() % 6) + 1,
        at::kDouble, round);
    EXPECT_LT(Error(GroupAnswer(problem, *plan), SlowAnswer(problem)), 1e-11);
  }
}

TEST(GatedDeltaErrorTest, WrongShapesAreNamed) {
  const auto plan = std::make_shared<const ShardPlan>(
      *PlanShards(OneRow({8}), {.layout = Layout::kBalanced}, 1));
  auto ranks = MakeLoopbackGroup(1);
  const auto group = MakePartGroup(plan, std::move(ranks[0]));
  const DeltaProblem problem =
      RandomProblem(OneRow({8}), kOptions, true, 4, at::kFloat, 1);
  GatedDeltaInputs in = {
      problem.in.at("mixed_qkv"), problem.in.at("conv_weight"),
      problem.in.at("a"),         problem.in.at("b"),
      problem.in.at("a_log"),     problem.in.at("dt_bias")};
  GatedDeltaOptions options = kOptions;
  options.value_heads = 3;
  EXPECT_THAT(GatedDelta(in, options, group),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("value_heads is 3; must be a multiple of "
                                 "key_heads = 2")));
  in.a = at::zeros({7, 4});
  EXPECT_THAT(GatedDelta(in, kOptions, group),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("a has shape [7, 4]; must be [8, 4]")));
}

}  // namespace
}  // namespace cpfeed::testing

// Every exchange beside dense float64 attention on one device: layouts, masks,
// numbers of ranks, dtypes; results and gradients.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/attention/attention_mask.h"
#include "core/attention/make_kv_exchange.h"
#include "core/plan/layout.h"
#include "core/plan/shard_plan.h"
#include "tests/core/attention/attention_problem.h"
#include "tests/core/plan/packs.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kCpSizes[] = {1, 2, 3, 4, 8};

// The largest error that the arithmetic explains, for numbers of size 1. Inputs
// are exact in every dtype, values are below 1 and scores below 4. In float64
// and float32 sums of a few hundred terms lose a few units in the last place
// (2^-53, 2^-24). In bfloat16 (2^-9) the kernel rounds the probabilities, their
// gradients and each partial result; a gradient is the sum of a few roundings.
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

// The error over the size of the largest number, if that is above 1.
double Error(const std::vector<double>& is, const std::vector<double>& must) {
  double size = 1;
  for (const double value : must) {
    if (std::isfinite(value)) size = std::max(size, std::abs(value));
  }
  return MaxDifference(is, must) / size;
}

struct Matrix {
  LayoutSpec spec;
  AttentionMask mask;
};

std::string NameOf(const ::testing::TestParamInfo<Matrix>& info) {
  const auto& [spec, mask] = info.param;
  return absl::StrCat(
      LayoutName(spec.layout), spec.uneven ? "_uneven_" : "_",
      mask.is_window() ? absl::StrCat("window", mask.left) : MaskName(mask));
}

std::vector<Matrix> AllOfMatrix() {
  std::vector<LayoutSpec> specs = TestSpecs();
  specs.push_back({.layout = Layout::kContiguous, .uneven = true});
  std::vector<Matrix> all;
  for (const LayoutSpec& spec : specs) {
    for (const AttentionMask& mask :
         {AttentionMask::Causal(), AttentionMask::Full(),
          AttentionMask::Window(5, 0), AttentionMask::Window(200, 7)}) {
      all.push_back({spec, mask});
    }
  }
  return all;
}

// Heads that `cp_size` ranks can share: several each, or two ranks one.
AttentionProblem ProblemFor(const ShardPlan& plan, const AttentionMask& mask) {
  AttentionProblem problem{.lengths = plan.lengths, .mask = mask};
  problem.num_heads = plan.cp_size == 3 ? 6 : std::max(4, plan.cp_size);
  problem.num_kv_heads = problem.num_heads / 2;
  problem.value_dim = plan.cp_size == 4 ? 5 : 8;
  FillAtRandom(problem, plan.cp_size);
  return problem;
}

class ExchangeMatrixTest : public ::testing::TestWithParam<Matrix> {};

INSTANTIATE_TEST_SUITE_P(All, ExchangeMatrixTest,
                         ::testing::ValuesIn(AllOfMatrix()), NameOf);

void ExpectRight(const AttentionProblem& problem, const ShardPlan& plan,
                 const AttentionAnswer& expected, const std::string& exchange,
                 DType dtype) {
  const auto answer = RunGroup(problem, plan, exchange, dtype);
  ASSERT_THAT(answer, IsOk());
  EXPECT_LE(Error(answer->out, expected.out), Tolerance(dtype));
  EXPECT_LE(Error(answer->lse, expected.lse), Tolerance(dtype));
  EXPECT_LE(Error(answer->dq, expected.dq), Tolerance(dtype));
  EXPECT_LE(Error(answer->dk, expected.dk), Tolerance(dtype));
  EXPECT_LE(Error(answer->dv, expected.dv), Tolerance(dtype));
  EXPECT_TRUE(answer->pad_rows_are_empty);
}

// Packs with empty sequences, padding, lengths of 0 to hundreds. Padding holds
// NaN, which must not come out anywhere.
TEST_P(ExchangeMatrixTest, EveryExchangeGivesWhatOneDeviceGives) {
  const auto& [spec, mask] = GetParam();
  std::mt19937 random(11);
  for (const int cp_size : kCpSizes) {
    const auto plan = PlanShards(PackFor(spec, cp_size, random), spec, cp_size);
    ASSERT_THAT(plan, IsOk());
    const AttentionProblem problem = ProblemFor(*plan, mask);
    const AttentionAnswer expected = DenseAnswer(problem);
    for (const std::string& exchange : KvExchangeNames()) {
      for (const DType dtype :
           {DType::kFloat64, DType::kFloat32, DType::kBfloat16}) {
        SCOPED_TRACE(
            absl::StrCat(exchange, " over ", cp_size, ", ", DTypeName(dtype)));
        if (Does(exchange, problem, *plan)) {
          ExpectRight(problem, *plan, expected, exchange, dtype);
        } else {
          EXPECT_THAT(
              RunGroup(problem, *plan, exchange, dtype).status().message(),
              HasSubstr(absl::StrCat("exchange ", exchange)));
        }
      }
    }
  }
}

struct Accuracy {
  std::string exchange;
  DType dtype;
};

class ExchangeAccuracyTest : public ::testing::TestWithParam<Accuracy> {};

std::vector<Accuracy> AllAccuracies() {
  std::vector<Accuracy> all;
  for (const std::string& exchange : KvExchangeNames()) {
    all.push_back({exchange, DType::kFloat32});
    all.push_back({exchange, DType::kBfloat16});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, ExchangeAccuracyTest,
                         ::testing::ValuesIn(AllAccuracies()),
                         [](const auto& info) {
                           return absl::StrCat(info.param.exchange, "_",
                                               DTypeName(info.param.dtype));
                         });

// Splitting must not cost accuracy: partial results merge, and gradients add
// up, in float32.
TEST_P(ExchangeAccuracyTest, WorstErrorIsAtMostTwiceThatOfOneRank) {
  const auto& [exchange, dtype] = GetParam();
  AttentionProblem problem{.lengths = OneRow({1000, 48, 488}, {1008, 48, 528}),
                           .num_heads = 8,
                           .num_kv_heads = 4};
  FillAtRandom(problem, 1);
  const AttentionAnswer expected = DenseAnswer(problem);
  const auto errors = [&](int cp_size) {
    const auto plan = PlanShards(problem.lengths, {}, cp_size);
    const auto answer = RunGroup(problem, *plan, exchange, dtype);
    EXPECT_THAT(answer, IsOk());
    return std::vector<double>{MaxDifference(answer->out, expected.out),
                               MaxDifference(answer->dq, expected.dq),
                               MaxDifference(answer->dk, expected.dk),
                               MaxDifference(answer->dv, expected.dv)};
  };
  const std::vector<double> one = errors(1);
  for (const int cp_size : {2, 3, 4, 8}) {
    const auto plan = PlanShards(problem.lengths, {}, cp_size);
    if (!plan.ok() || !Does(exchange, problem, *plan)) continue;
    SCOPED_TRACE(absl::StrCat(cp_size, " ranks"));
    const std::vector<double> several = errors(cp_size);
    for (size_t i = 0; i < one.size(); ++i) {
      EXPECT_LE(several[i], 2 * one[i]) << "out, dq, dk, dv: number " << i;
    }
  }
}

}  // namespace
}  // namespace cpfeed::testing

// Attention on a GPU beside dense float64 attention: the ranks are threads that
// share the GPU.

#include <ATen/Context.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
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

// As on the CPU for float64. Matrix products in float32 may go by TensorFloat32
// units inside the efficient kernel (10 bits of fraction).
double Tolerance(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return 1e-12;
    case DType::kFloat32:
      return 5e-3;
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

void ExpectRight(const AttentionProblem& problem, const ShardPlan& plan,
                 const AttentionAnswer& expected, const std::string& exchange,
                 DType dtype) {
  const auto answer =
      RunGroup(problem, plan, exchange, dtype, {}, RanksOn::kGpu);
  ASSERT_THAT(answer, IsOk());
  EXPECT_LE(Error(answer->out, expected.out), Tolerance(dtype));
  EXPECT_LE(Error(answer->lse, expected.lse), Tolerance(dtype));
  EXPECT_LE(Error(answer->dq, expected.dq), Tolerance(dtype));
  EXPECT_LE(Error(answer->dk, expected.dk), Tolerance(dtype));
  EXPECT_LE(Error(answer->dv, expected.dv), Tolerance(dtype));
  EXPECT_TRUE(answer->pad_rows_are_empty);
}

struct Case {
  LayoutSpec spec;
  AttentionMask mask;
};

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const LayoutSpec& spec : TestSpecs()) {
    for (const AttentionMask& mask :
         {AttentionMask::Causal(), AttentionMask::Full(),
          AttentionMask::Window(5, 0)}) {
      cases.push_back({spec, mask});
    }
  }
  return cases;
}

class GpuAttentionTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(at::globalContext().hasCUDA()) << "no CUDA device";
  }
};

TEST_P(GpuAttentionTest, EveryExchangeGivesWhatOneDeviceGives) {
  const auto& [spec, mask] = GetParam();
  std::mt19937 random(11);
  for (const int cp_size : {1, 4}) {
    const auto plan = PlanShards(PackFor(spec, cp_size, random), spec, cp_size);
    ASSERT_THAT(plan, IsOk());
    AttentionProblem problem{.lengths = plan->lengths, .mask = mask};
    problem.num_heads = 4;
    problem.num_kv_heads = 2;
    problem.value_dim = cp_size == 4 ? 5 : 8;
    FillAtRandom(problem, cp_size);
    const AttentionAnswer expected = DenseAnswer(problem);
    for (const std::string& exchange : KvExchangeNames()) {
      if (!Does(exchange, problem, *plan)) continue;
      for (const DType dtype : {DType::kFloat64, DType::kFloat32,
                                DType::kBfloat16, DType::kFloat16}) {
        SCOPED_TRACE(
            absl::StrCat(exchange, " over ", cp_size, ", ", DTypeName(dtype)));
        ExpectRight(problem, *plan, expected, exchange, dtype);
      }
    }
  }
}

std::string NameOf(const ::testing::TestParamInfo<Case>& info) {
  const auto& [spec, mask] = info.param;
  return absl::StrCat(LayoutName(spec.layout), "_",
                      mask.is_window() ? "window" : MaskName(mask), "_",
                      info.index);
}

INSTANTIATE_TEST_SUITE_P(All, GpuAttentionTest, ::testing::ValuesIn(AllCases()),
                         NameOf);

TEST(GpuDeterminismTest, TwoRunsGiveTheSameBits) {
  ASSERT_TRUE(at::globalContext().hasCUDA()) << "no CUDA device";
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  const auto plan = PlanShards(OneRow({512, 256, 768}), {}, 4);
  ASSERT_THAT(plan, IsOk());
  AttentionProblem problem{.lengths = plan->lengths};
  problem.head_dim = problem.value_dim = 64;
  FillAtRandom(problem, 3);
  for (const DType dtype : {DType::kFloat32, DType::kBfloat16}) {
    const auto first =
        RunGroup(problem, *plan, "ring", dtype, {}, RanksOn::kGpu);
    const auto second =
        RunGroup(problem, *plan, "ring", dtype, {}, RanksOn::kGpu);
    ASSERT_THAT(first, IsOk());
    ASSERT_THAT(second, IsOk());
    EXPECT_EQ(MaxDifference(*first, *second), 0);
  }
  at::globalContext().setDeterministicAlgorithms(false, /*warn_only=*/false);
}

}  // namespace
}  // namespace cpfeed::testing

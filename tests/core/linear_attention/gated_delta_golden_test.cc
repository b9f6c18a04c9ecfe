// The gated delta rule beside answers that an independent float64
// implementation gave.

#include <ATen/TensorOperators.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/max.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/plan/shard_plan.h"
#include "tests/core/linear_attention/delta_problem.h"
#include "tests/core/plan/packs.h"
#include "tests/testing/golden.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed::testing {
namespace {

using ::nlohmann::json;

void Flatten(const json& value, std::vector<double>& into) {
  if (value.is_array()) {
    for (const json& item : value) Flatten(item, into);
  } else {
    into.push_back(value.get<double>());
  }
}

at::Tensor TensorOf(const json& value) {
  std::vector<int64_t> shape;
  for (const json* axis = &value; axis->is_array(); axis = &(*axis)[0]) {
    shape.push_back(static_cast<int64_t>(axis->size()));
    if (axis->empty()) break;
  }
  std::vector<double> numbers;
  Flatten(value, numbers);
  return at::from_blob(numbers.data(), shape, at::kDouble).clone();
}

// A_log has the name of upstream there.
std::string NameOf(const std::string& key) {
  return key == "A_log" ? "a_log" : key;
}

DeltaProblem ProblemOf(const json& item) {
  const auto sums = item["cu_seqlens"].get<std::vector<int64_t>>();
  std::vector<int64_t> lengths;
  for (size_t i = 1; i < sums.size(); ++i) {
    lengths.push_back(sums[i] - sums[i - 1]);
  }
  DeltaProblem problem{.lengths = OneRow(lengths),
                       .options = {.key_heads = item["Hk"],
                                   .value_heads = item["Hv"],
                                   .key_dim = item["K"],
                                   .value_dim = item["V"],
                                   .scale = item["scale"],
                                   .qk_l2norm = item["qk_l2norm"]},
                       .dout = TensorOf(item["dout"])};
  for (const auto& [key, value] : item["in"].items()) {
    problem.in[NameOf(key)] = TensorOf(value);
  }
  return problem;
}

double Difference(const at::Tensor& a, const at::Tensor& b) {
  EXPECT_EQ(a.sizes(), b.sizes());
  return a.numel() == 0 ? 0 : at::max((a - b).abs()).item<double>();
}

void ExpectGolden(const json& item, const DeltaAnswer& answer) {
  constexpr double kTolerance = 1e-9;  // Outputs have 12 digits.
  for (const char* key : {"out", "final_state", "conv_out", "g", "beta"}) {
    if (!item.contains(key)) continue;
    const std::string name =
        key == std::string("final_state") ? "final_states" : key;
    EXPECT_LT(Difference(answer.at(name), TensorOf(item[key])), kTolerance)
        << key;
  }
  for (const auto& [key, value] : item["grad"].items()) {
    EXPECT_LT(Difference(answer.at("d" + NameOf(key)), TensorOf(value)),
              kTolerance)
        << "gradient of " << key;
  }
}

class GatedDeltaGoldenTest : public ::testing::TestWithParam<json> {};

TEST_P(GatedDeltaGoldenTest, TheReferenceOfTheseTestsAgrees) {
  ExpectGolden(GetParam(), SlowAnswer(ProblemOf(GetParam())));
}

// Parts get shorter than the convolution: its halo spans several of them.
TEST_P(GatedDeltaGoldenTest, EveryNumberOfRanksGivesTheAnswer) {
  const DeltaProblem problem = ProblemOf(GetParam());
  for (const int cp_size : {1, 2, 3, 4, 5, 8, 30}) {
    SCOPED_TRACE(cp_size);
    const auto plan =
        PlanShards(problem.lengths,
                   {.layout = Layout::kContiguous, .uneven = true}, cp_size);
    ASSERT_THAT(plan, IsOk());
    ExpectGolden(GetParam(), GroupAnswer(problem, *plan));
  }
}

INSTANTIATE_TEST_SUITE_P(All, GatedDeltaGoldenTest,
                         ::testing::ValuesIn(GoldenCases("gated_delta.json")),
                         [](const auto& info) {
                           return info.param["id"].template get<std::string>();
                         });

}  // namespace
}  // namespace cpfeed::testing

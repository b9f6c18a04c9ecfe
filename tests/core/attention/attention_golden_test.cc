// Attention beside answers that an independent float64 implementation gave.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/attention/make_kv_exchange.h"
#include "core/plan/shard_plan.h"
#include "tests/core/attention/attention_problem.h"
#include "tests/core/plan/packs.h"
#include "tests/testing/golden.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed::testing {
namespace {

using ::nlohmann::json;

// The numbers of nested lists, in order; null is -inf.
void Flatten(const json& value, std::vector<double>& into) {
  if (value.is_array()) {
    for (const json& item : value) Flatten(item, into);
  } else {
    into.push_back(value.is_null() ? -std::numeric_limits<double>::infinity()
                                   : value.get<double>());
  }
}

std::vector<double> NumbersOf(const json& value) {
  std::vector<double> numbers;
  Flatten(value, numbers);
  return numbers;
}

AttentionMask MaskOf(const json& item) {
  if (item["kind"] == "full") return AttentionMask::Full();
  if (item["kind"] == "causal") return AttentionMask::Causal();
  return AttentionMask::Window(item["window_left"], 0);
}

AttentionProblem ProblemOf(const json& item) {
  return {
      .lengths = OneRow(item["seq_lens"].get<std::vector<int64_t>>(),
                        item["seq_lens_padded"].get<std::vector<int64_t>>()),
      .mask = MaskOf(item),
      .num_heads = item["Hq"],
      .num_kv_heads = item["Hkv"],
      .head_dim = item["D"],
      .value_dim = item["Dv"],
      .scale = item["scale"],
      .q = NumbersOf(item["q"]),
      .k = NumbersOf(item["k"]),
      .v = NumbersOf(item["v"]),
      .dout = NumbersOf(item["dout"])};
}

// The largest difference to what the case has of the answer.
double DifferenceTo(const json& item, const AttentionAnswer& answer) {
  double most = 0;
  for (const auto& [key, values] :
       {std::pair("out", &answer.out), std::pair("lse", &answer.lse),
        std::pair("dq", &answer.dq), std::pair("dk", &answer.dk),
        std::pair("dv", &answer.dv)}) {
    if (!item.contains(key)) continue;
    most = std::max(most, MaxDifference(*values, NumbersOf(item[key])));
  }
  return most;
}

std::vector<json> Cases() {
  std::vector<json> cases = GoldenCases("attention.json");
  for (json& item : GoldenCases("reported_attention_faults.json")) {
    cases.push_back(std::move(item));
  }
  return cases;
}

// Answers have 12 digits, or as many as "tolerance" says. The inputs of most
// have 6 decimals, so bfloat16 rounds them too.
class AttentionGoldenTest : public ::testing::TestWithParam<json> {
 protected:
  double ToleranceOr(double least) const {
    return std::max(least, GetParam().value("tolerance", 0.0));
  }
};

INSTANTIATE_TEST_SUITE_P(Cases, AttentionGoldenTest,
                         ::testing::ValuesIn(Cases()), GoldenId);

TEST_P(AttentionGoldenTest, DenseReferenceAgrees) {
  EXPECT_LE(DifferenceTo(GetParam(), DenseAnswer(ProblemOf(GetParam()))),
            ToleranceOr(1e-11));
}

TEST_P(AttentionGoldenTest, EveryExchangeAgreesAtEveryCpSize) {
  const AttentionProblem problem = ProblemOf(GetParam());
  for (const int cp_size : GetParam()["cp_sizes"]) {
    const auto plan = PlanShards(problem.lengths, {}, cp_size);
    ASSERT_THAT(plan, IsOk());
    for (const std::string& exchange : KvExchangeNames()) {
      if (!Does(exchange, problem, *plan)) continue;
      for (const auto& [dtype, tolerance] :
           {std::pair(DType::kFloat64, 1e-11), std::pair(DType::kFloat32, 5e-6),
            std::pair(DType::kBfloat16, 4e-2)}) {
        SCOPED_TRACE(exchange + " over " + std::to_string(cp_size));
        const auto answer = RunGroup(problem, *plan, exchange, dtype);
        ASSERT_THAT(answer, IsOk());
        EXPECT_LE(DifferenceTo(GetParam(), *answer), ToleranceOr(tolerance));
      }
    }
  }
}

}  // namespace
}  // namespace cpfeed::testing

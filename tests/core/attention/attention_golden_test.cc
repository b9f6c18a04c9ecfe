// Attention beside answers that an independent float64 implementation gave.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/plan/layout.h"
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
      .v = NumbersOf(item["v"])};
}

// The answers have 12 digits. The inputs have 6 decimals, so bfloat16 rounds
// them too.
class AttentionGoldenTest : public ::testing::TestWithParam<json> {};

INSTANTIATE_TEST_SUITE_P(Cases, AttentionGoldenTest,
                         ::testing::ValuesIn(GoldenCases("attention.json")),
                         GoldenId);

TEST_P(AttentionGoldenTest, DenseReferenceAgrees) {
  const AttentionAnswer answer = DenseAnswer(ProblemOf(GetParam()));
  EXPECT_LE(MaxDifference(answer.out, NumbersOf(GetParam()["out"])), 1e-11);
  EXPECT_LE(MaxDifference(answer.lse, NumbersOf(GetParam()["lse"])), 1e-11);
}

TEST_P(AttentionGoldenTest, EveryExchangeAgreesAtEveryCpSize) {
  const AttentionProblem problem = ProblemOf(GetParam());
  for (const int cp_size : GetParam()["cp_sizes"]) {
    const auto plan = PlanShards(problem.lengths, {}, cp_size);
    ASSERT_THAT(plan, IsOk());
    for (const std::string exchange : {"ring", "allgather"}) {
      if (exchange == "ring" && problem.mask.is_window() && cp_size > 1) {
        continue;  // Refused by name.
      }
      for (const auto& [dtype, tolerance] :
           {std::pair(DType::kFloat64, 1e-11), std::pair(DType::kFloat32, 5e-6),
            std::pair(DType::kBfloat16, 4e-2)}) {
        SCOPED_TRACE(exchange + " over " + std::to_string(cp_size));
        const auto answer = RunGroup(problem, *plan, exchange, dtype);
        ASSERT_THAT(answer, IsOk());
        EXPECT_LE(MaxDifference(answer->out, NumbersOf(GetParam()["out"])),
                  tolerance);
        EXPECT_LE(MaxDifference(answer->lse, NumbersOf(GetParam()["lse"])),
                  tolerance);
      }
    }
  }
}

}  // namespace
}  // namespace cpfeed::testing

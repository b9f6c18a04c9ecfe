// What ranks receive, counted, beside the formulas of docs/algorithms.md.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/attention/attention_mask.h"
#include "core/plan/layout.h"
#include "core/plan/shard_plan.h"
#include "core/plan/transfer_table.h"
#include "tests/core/attention/attention_problem.h"
#include "tests/core/plan/packs.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed::testing {
namespace {

using ::testing::Each;

constexpr int64_t kTokens = 96;
constexpr int64_t kQuery = 8 * 5;     // Elements of a token.
constexpr int64_t kKv = 4 * (5 + 5);  // Compressed to the kv heads.

AttentionProblem Problem(AttentionMask mask = AttentionMask::Causal()) {
  AttentionProblem problem{.lengths = OneRow({16, 41, 0, 32}, {16, 48, 0, 32}),
                           .mask = mask,
                           .num_heads = 8,
                           .num_kv_heads = 4,
                           .head_dim = 5,
                           .value_dim = 5};
  FillAtRandom(problem, 1);
  return problem;
}

GroupAnswer RunProblem(const AttentionProblem& problem, int cp_size,
                       const std::string& exchange, DType dtype,
                       const KvExchangeOptions& options = {}) {
  const auto plan = PlanShards(problem.lengths, {}, cp_size);
  EXPECT_THAT(plan, IsOk());
  auto answer = RunGroup(problem, *plan, exchange, dtype, options);
  EXPECT_THAT(answer, IsOk());
  return *answer;
}

struct Width {
  DType dtype;
  int64_t input;        // Bytes of an element.
  int64_t accumulator;  // Of a gradient on its way home.
};

class ExchangeBytesTest : public ::testing::TestWithParam<Width> {};

INSTANTIATE_TEST_SUITE_P(All, ExchangeBytesTest,
                         ::testing::Values(Width{DType::kFloat64, 8, 8},
                                           Width{DType::kFloat32, 4, 4},
                                           Width{DType::kBfloat16, 2, 4}),
                         [](const auto& info) {
                           return std::string(DTypeName(info.param.dtype));
                         });

// (cp_size - 1) / cp_size * T * kv, and in the backward pass as many gradients.
TEST_P(ExchangeBytesTest, RingAndAllgatherReceiveAllOthersOnce) {
  const auto& [dtype, input, accumulator] = GetParam();
  for (const std::string exchange : {"ring", "allgather"}) {
    for (const int cp_size : {1, 2, 4, 8}) {
      SCOPED_TRACE(absl::StrCat(exchange, " over ", cp_size));
      const GroupAnswer answer =
          RunProblem(Problem(), cp_size, exchange, dtype);
      const int64_t elements = kTokens / cp_size * (cp_size - 1) * kKv;
      EXPECT_THAT(answer.bytes_received, Each(elements * input));
      EXPECT_THAT(answer.backward_bytes_received,
                  Each(elements * (input + accumulator)));
    }
  }
}

// (T / cp) (1 - 1 / cp) (2 q + kv): queries, keys and values in, outputs back.
// Backward: those, outputs with lse, and gradients of outputs in; gradients
// back.
TEST_P(ExchangeBytesTest, AlltoallReceivesItsHeads) {
  const auto& [dtype, input, accumulator] = GetParam();
  for (const int cp_size : {1, 2, 4}) {
    SCOPED_TRACE(absl::StrCat(cp_size, " ranks"));
    const GroupAnswer answer =
        RunProblem(Problem(), cp_size, "alltoall", dtype);
    const int64_t rows = kTokens / cp_size;  // Times (cp_size - 1) / cp_size.
    EXPECT_THAT(answer.bytes_received, Each(rows * (2 * kQuery + kKv) *
                                            (cp_size - 1) / cp_size * input));
    EXPECT_THAT(answer.backward_bytes_received,
                Each(rows * (cp_size - 1) / cp_size *
                     ((3 * kQuery + kKv) * input + 8 * accumulator +
                      (kQuery + kKv) * accumulator)));
  }
}

// 8 ranks share 4 kv heads: each head travels to two of them.
TEST_P(ExchangeBytesTest, AlltoallReceivesSharedHeadsWhole) {
  const auto& [dtype, input, accumulator] = GetParam();
  const GroupAnswer answer = RunProblem(Problem(), 8, "alltoall", dtype);
  EXPECT_THAT(answer.bytes_received,
              Each(kTokens * 7 / 8 * (2 * kQuery / 8 + kKv / 4) * input));
}

// 8 ranks, inner groups of 2: each rank trades rows for heads with one other
// rank, then passes half the heads of its group's real rows round a ring of 4.
TEST_P(ExchangeBytesTest, HierarchicalReceivesFromNeighboursAndFromItsRing) {
  const auto& [dtype, input, accumulator] = GetParam();
  AttentionProblem problem = Problem();
  problem.lengths = OneRow({16, 48, 32});  // No padding.
  FillAtRandom(problem, 1);
  const GroupAnswer answer =
      RunProblem(problem, 8, "hierarchical", dtype, {.inner_size = 2});
  EXPECT_THAT(
      answer.bytes_received,
      Each((kTokens / 8 * (2 * kQuery + kKv) / 2 + 3 * kTokens / 4 * kKv / 2) *
           input));
}

// Just the rows that the plan's metric counts, on every layout.
TEST_P(ExchangeBytesTest, PlannedReceivesWhatThePlanSays) {
  const auto& [dtype, input, accumulator] = GetParam();
  std::mt19937 random(5);
  for (const LayoutSpec& spec : TestSpecs()) {
    for (const int cp_size : {1, 2, 3, 4}) {
      SCOPED_TRACE(absl::StrCat(LayoutName(spec.layout), " over ", cp_size));
      const auto plan =
          PlanShards(PackFor(spec, cp_size, random), spec, cp_size);
      ASSERT_THAT(plan, IsOk());
      AttentionProblem problem{.lengths = plan->lengths};
      FillAtRandom(problem, 1);
      const auto answer = RunGroup(problem, *plan, "planned", dtype);
      ASSERT_THAT(answer, IsOk());
      const std::vector<KvTraffic> rows = TransferTable(*plan).traffic();
      const int64_t width = problem.num_kv_heads * 2 * problem.head_dim;
      for (int rank = 0; rank < cp_size; ++rank) {
        EXPECT_EQ(answer->bytes_received[rank],
                  rows[rank].received * width * input);
        EXPECT_EQ(
            answer->backward_bytes_received[rank],
            (rows[rank].received * input + rows[rank].sent * accumulator) *
                width);
      }
    }
  }
}

// Each rank of 4 holds 24 tokens of one sequence of 96 and sees 3 before them.
TEST(PlannedExchangeTest, WindowReceivesOnlyTheWindow) {
  AttentionProblem problem = Problem(AttentionMask::Window(3, 0));
  problem.lengths = OneRow({96});
  FillAtRandom(problem, 1);
  const auto plan =
      PlanShards(problem.lengths, {.layout = Layout::kContiguous}, 4);
  const auto answer = RunGroup(problem, *plan, "planned", DType::kFloat32);
  ASSERT_THAT(answer, IsOk());
  const int64_t bytes = 3 * kKv * 4;
  EXPECT_THAT(answer->bytes_received,
              ::testing::ElementsAre(0, bytes, bytes, bytes));
}

}  // namespace
}  // namespace cpfeed::testing

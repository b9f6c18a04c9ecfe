#include "core/attention/block_attention.h"

#include <ATen/ops/from_blob.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/attention/row_runs.h"
#include "core/attention/tile_plan.h"
#include "core/plan/shard_plan.h"
#include "tests/core/plan/packs.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::OneRow;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;

constexpr double kNone = -std::numeric_limits<double>::infinity();

at::Tensor Column(const std::vector<double>& values) {
  return at::from_blob(const_cast<double*>(values.data()),
                       {static_cast<int64_t>(values.size()), 1, 1}, at::kDouble)
      .clone();
}

std::vector<double> ValuesOf(const at::Tensor& tensor) {
  const double* first = tensor.data_ptr<double>();
  return std::vector<double>(first, first + tensor.numel());
}

MATCHER_P(Near, tolerance, "") {
  return std::get<0>(arg) == std::get<1>(arg) ||
         std::abs(std::get<0>(arg) - std::get<1>(arg)) <= tolerance;
}

// One sequence of 4 over 2 ranks, causal, one head of one column, scale 1:
// rank 0 holds tokens 0 and 3, rank 1 holds 1 and 2.
struct RingStep {
  int rank;
  int source;
  std::vector<double> out;  // Of this block alone, for the rank's rows.
  std::vector<double> lse;
};

class RingStepTest : public ::testing::TestWithParam<RingStep> {};

TEST_P(RingStepTest, BlockAloneGivesItsPart) {
  const std::vector<std::vector<double>> q = {{1, 2}, {0, 1}};
  const std::vector<std::vector<double>> k = {{1, 1}, {0, -1}};
  const std::vector<std::vector<double>> v = {{1, 4}, {2, 3}};
  const RingStep& step = GetParam();
  const auto plan = PlanShards(OneRow({4}), {}, 2);
  ASSERT_THAT(plan, IsOk());
  BlockAttention block(Column(q[step.rank]), 1, 1.0);
  block.Add(PlanTiles(RankRuns(*plan, step.rank), RankRuns(*plan, step.source),
                      AttentionMask::Causal()),
            Column(k[step.source]), Column(v[step.source]));
  EXPECT_THAT(ValuesOf(block.Output()), Pointwise(Near(1e-6), step.out));
  EXPECT_THAT(ValuesOf(block.lse()), Pointwise(Near(1e-6), step.lse));
}

INSTANTIATE_TEST_SUITE_P(
    All, RingStepTest,
    ::testing::Values(RingStep{0, 0, {1, 2.5}, {1, 2.693147}},
                      RingStep{0, 1, {0, 2.119203}, {kNone, 0.126928}},
                      RingStep{1, 1, {2, 2.268941}, {0, 0.313262}},
                      RingStep{1, 0, {1, 1}, {0, 1}}),
    [](const auto& info) {
      return "Rank" + std::to_string(info.param.rank) + "Source" +
             std::to_string(info.param.source);
    });

TEST(BlockAttentionTest, BlocksMergeToTheWhole) {
  const auto plan = PlanShards(OneRow({4}), {}, 2);
  ASSERT_THAT(plan, IsOk());
  BlockAttention rank0(Column({1, 2}), 1, 1.0);
  const auto add = [&](int source, std::vector<double> k,
                       std::vector<double> v) {
    rank0.Add(PlanTiles(RankRuns(*plan, 0), RankRuns(*plan, source),
                        AttentionMask::Causal()),
              Column(k), Column(v));
  };
  add(0, {1, 1}, {1, 4});
  add(1, {0, -1}, {2, 3});
  EXPECT_THAT(ValuesOf(rank0.Output()),
              ElementsAre(DoubleNear(1, 1e-6), DoubleNear(2.472832, 1e-6)));
}

TEST(BlockAttentionTest, NothingAddedIsEmpty) {
  BlockAttention block(Column({1, 2}), 3, 1.0);
  block.Add({}, Column({}), Column({}));
  EXPECT_THAT(ValuesOf(block.Output()), ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(ValuesOf(block.lse()), ElementsAre(kNone, kNone));
}

// Rows 0 and 3 of the band see nothing; the kernel would call their lse 0.
TEST(BlockAttentionTest, BandRowsThatSeeNothingStayEmpty) {
  TilePlan plan;
  plan.tiles = {{.kind = Tile::Kind::kBand, .q_rows = 4, .k_rows = 3}};
  plan.bounds = {{0, 0}, {0, 1}, {1, 3}, {3, 3}};
  BlockAttention block(Column({0, 0, 0, 0}), 1, 1.0);
  block.Add(plan, Column({0, 0, 0}), Column({5, 7, 9}));
  EXPECT_THAT(ValuesOf(block.Output()), ElementsAre(0, 5, 8, 0));
  EXPECT_THAT(ValuesOf(block.lse()),
              ElementsAre(kNone, 0, DoubleNear(std::log(2), 1e-15), kNone));
}

}  // namespace
}  // namespace cpfeed

// Small problems of linear attention with answers that a reader can follow by
// hand, over one rank and over two.

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/max.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "core/comm/loopback_communicator.h"
#include "core/linear_attention/causal_conv.h"
#include "core/linear_attention/delta_kernel.h"
#include "core/linear_attention/delta_rule.h"
#include "core/linear_attention/gated_delta.h"
#include "core/linear_attention/part_group.h"
#include "core/linear_attention/part_rows.h"
#include "core/plan/shard_plan.h"
#include "tests/core/plan/packs.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed::testing {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;

constexpr double kDigits = 1e-11;  // The answers have 12.

at::Tensor TensorOf(std::vector<double> numbers,
                    const std::vector<int64_t>& shape) {
  return at::from_blob(numbers.data(), shape, at::kDouble).clone();
}

std::vector<double> NumbersOf(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.detach().to(at::kDouble).contiguous();
  const double* const first = dense.const_data_ptr<double>();
  return std::vector<double>(first, first + dense.numel());
}

ShardPlan HeadTail(const std::vector<int64_t>& lengths, int cp_size) {
  auto plan = PlanShards(OneRow(lengths),
                         {.layout = Layout::kHeadTailPerSequence}, cp_size);
  EXPECT_THAT(plan, IsOk());
  return *std::move(plan);
}

// What each rank of a group makes of its part.
template <class Result>
std::vector<Result> OnRanks(
    const ShardPlan& plan,
    const std::function<Result(std::shared_ptr<const PartGroup>)>& rank) {
  const auto shared = std::make_shared<const ShardPlan>(plan);
  auto ends = MakeLoopbackGroup(plan.cp_size);
  std::vector<Result> results(plan.cp_size);
  std::vector<std::thread> threads;
  for (int r = 0; r < plan.cp_size; ++r) {
    threads.emplace_back([&, r] {
      results[r] = rank(MakePartGroup(shared, std::move(ends[r])));
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

// Token:   0 1 | 2 3 | 4 5 | 6 7
// Shard:    0     1     1     0
// Part:     0     0     1     1
TEST(UndoTest, RowsOfAHeadTailShardGoToTheirContiguousPartAndBack) {
  const ShardPlan plan = HeadTail({8}, 2);
  const auto parts = OnRanks<std::pair<at::Tensor, at::Tensor>>(
      plan, [&](std::shared_ptr<const PartGroup> group) {
        std::vector<double> own;
        for (const int32_t i : LocalIndex(plan, group->communicator->rank())) {
          own.push_back(i);
        }
        const at::Tensor part = ShardToPart(TensorOf(own, {4, 1}), group);
        return std::pair(part, PartToShard(part, group));
      });
  EXPECT_THAT(NumbersOf(parts[0].first), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(NumbersOf(parts[1].first), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(NumbersOf(parts[0].second), ElementsAre(0, 1, 6, 7));
  EXPECT_THAT(NumbersOf(parts[1].second), ElementsAre(2, 3, 4, 5));
}

// The chunks of all ranks behind each other, and where each chunk of the
// sequence is found among them.
TEST(UndoTest, ChunkOrdersOfTwoThreeAndFourRanks) {
  const auto orders = [](int cp_size) {
    const ShardPlan plan = HeadTail({2 * cp_size}, cp_size);
    std::vector<int32_t> redo, undo(2 * cp_size);
    for (int rank = 0; rank < cp_size; ++rank) {
      const std::vector<int32_t> index = LocalIndex(plan, rank);
      redo.insert(redo.end(), index.begin(), index.end());
    }
    std::iota(undo.begin(), undo.end(), 0);
    std::sort(undo.begin(), undo.end(),
              [&](int32_t a, int32_t b) { return redo[a] < redo[b]; });
    return std::pair(undo, redo);
  };
  EXPECT_THAT(orders(2).first, ElementsAre(0, 2, 3, 1));
  EXPECT_THAT(orders(2).second, ElementsAre(0, 3, 1, 2));
  EXPECT_THAT(orders(3).first, ElementsAre(0, 2, 4, 5, 3, 1));
  EXPECT_THAT(orders(3).second, ElementsAre(0, 5, 1, 4, 2, 3));
  EXPECT_THAT(orders(4).first, ElementsAre(0, 2, 4, 6, 7, 5, 3, 1));
  EXPECT_THAT(orders(4).second, ElementsAre(0, 7, 1, 6, 2, 5, 3, 4));
}

// Taps .1 .2 .3 .4 over 1 .. 8. Rank 1 of 2 begins with 5 and needs 2, 3 and 4
// of rank 0: without them its first output would be .4 * 5 = 2, not 4.
TEST(ConvolutionTest, TheSecondRankNeedsTheRowsBeforeItsPart) {
  for (const int cp_size : {1, 2}) {
    const auto parts = OnRanks<at::Tensor>(
        HeadTail({8}, cp_size), [&](std::shared_ptr<const PartGroup> group) {
          const at::Tensor x =
              at::arange(1, 9, at::kDouble)
                  .reshape({8, 1})
                  .narrow(0, group->part.begin, group->part.num_tokens);
          return CausalConv(x, TensorOf({.1, .2, .3, .4}, {1, 4}), group);
        });
    std::vector<double> out, silu;
    for (const at::Tensor& part : parts) {
      for (const double y : NumbersOf(part)) out.push_back(y);
      for (const double y : NumbersOf(at::silu(part))) silu.push_back(y);
    }
    EXPECT_THAT(
        out, Pointwise(DoubleNear(kDigits), {.4, 1.1, 2., 3., 4., 5., 6., 7.}));
    EXPECT_THAT(silu, Pointwise(DoubleNear(1e-6),
                                {.239475, .825286, 1.761594, 2.857722, 3.928055,
                                 4.966536, 5.985164, 6.993623}));
  }
}

// Four tokens, K = 2, V = 1.
struct RuleExample {
  std::vector<double> q = {1, 0, 0, 1, .6, .8, .8, -.6};
  std::vector<double> k = {1, 0, 0, 1, .6, .8, 1, 0};
  std::vector<double> v = {1, 2, 3, 4};
  std::vector<double> g = {0, std::log(.5), std::log(.5), 0};
  std::vector<double> beta = {1, .5, 1, .5};
};

TEST(DeltaRuleTest, FourTokensByHand) {
  const RuleExample example;
  for (const int cp_size : {1, 2}) {
    const auto parts = OnRanks<std::pair<at::Tensor, at::Tensor>>(
        HeadTail({4}, cp_size), [&](std::shared_ptr<const PartGroup> group) {
          const auto rows = [&](const std::vector<double>& numbers,
                                const std::vector<int64_t>& shape) {
            return TensorOf(numbers, shape)
                .narrow(0, group->part.begin, group->part.num_tokens);
          };
          const DeltaOutput output =
              DeltaRule({.q = rows(example.q, {4, 1, 2}) * std::sqrt(.5),
                         .k = rows(example.k, {4, 1, 2}),
                         .v = rows(example.v, {4, 1, 1}),
                         .g = rows(example.g, {4, 1}),
                         .beta = rows(example.beta, {4, 1})},
                        group, /*with_final_states=*/true);
          return std::pair(output.out, output.final_states);
        });
    std::vector<double> out;
    at::Tensor state = at::zeros({1, 1, 2, 1}, at::kDouble);
    for (const auto& [part, states] : parts) {
      for (const double o : NumbersOf(part)) out.push_back(o);
      state = state + states;
    }
    EXPECT_THAT(
        out, Pointwise(DoubleNear(kDigits), {.707106781187, .707106781187,
                                             2.121320343560, .574170706323}));
    EXPECT_THAT(NumbersOf(state), Pointwise(DoubleNear(kDigits), {2.86, 2.46}));
  }
}

// What each half does to a state: the first reaches (.5, 1) from 0, the second
// (2.9, 2.4), and M (.5, 1) + (2.9, 2.4) is the end of both.
TEST(DeltaRuleTest, HalvesAreAMapOfTheStateBeforeThem) {
  const RuleExample example;
  const DeltaShape shape = {
      .key_heads = 1, .value_heads = 1, .key_dim = 2, .value_dim = 1};
  const PackedLengths lengths = OneRow({4});
  double m[2][4], e[2][2];
  for (int rank = 0; rank < 2; ++rank) {
    const TokenPart part = PartOf(lengths, 2, rank);
    const DeltaArrays<const double> arrays = {
        .q = example.q.data() + 2 * part.begin,
        .k = example.k.data() + 2 * part.begin,
        .v = example.v.data() + part.begin,
        .g = example.g.data() + part.begin,
        .beta = example.beta.data() + part.begin};
    DeltaTransition<double>(shape, part, arrays, m[rank], e[rank]);
  }
  EXPECT_THAT(e[0], Pointwise(DoubleNear(kDigits), {.5, 1.}));
  EXPECT_THAT(e[1], Pointwise(DoubleNear(kDigits), {2.9, 2.4}));
  EXPECT_THAT(m[1], Pointwise(DoubleNear(kDigits), {.16, -.12, -.24, .18}));
  EXPECT_NEAR(m[1][0] * e[0][0] + m[1][1] * e[0][1] + e[1][0], 2.86, kDigits);
  EXPECT_NEAR(m[1][2] * e[0][0] + m[1][3] * e[0][1] + e[1][1], 2.46, kDigits);
}

TEST(GateTest, ZeroParametersDecayByHalf) {
  const auto outputs = OnRanks<at::Tensor>(
      HeadTail({4}, 2), [](std::shared_ptr<const PartGroup> group) {
        const auto output = GatedDelta(
            {.mixed_qkv = at::ones({2, 3}, at::kDouble),
             .conv_weight = at::ones({3, 2}, at::kDouble),
             .a = at::zeros({2, 1}, at::kDouble),
             .b = at::zeros({2, 1}, at::kDouble),
             .a_log = at::zeros({1}, at::kDouble),
             .dt_bias = at::zeros({1}, at::kDouble)},
            {.key_heads = 1, .value_heads = 1, .key_dim = 1, .value_dim = 1},
            group, /*with_details=*/true);
        EXPECT_THAT(output, IsOk());
        return output->g;
      });
  for (const at::Tensor& g : outputs) {
    EXPECT_THAT(NumbersOf(g), Pointwise(DoubleNear(kDigits),
                                        {-0.693147180560, -0.693147180560}));
  }
}

// Prefix sums 0, 4, 8, 16: position 4 is the first of sequence 1.
TEST(SegmentTest, APositionOnABoundaryBelongsToTheNextSequence) {
  std::vector<int32_t> sequence_of(16);
  for (int rank = 0; rank < 4; ++rank) {
    const TokenPart part = PartOf(OneRow({4, 4, 8}), 4, rank);
    for (const SequenceRun& run : part.runs) {
      for (int64_t i = 0; i < run.length; ++i) {
        sequence_of[part.begin + run.row + i] = run.sequence;
      }
    }
  }
  EXPECT_THAT(sequence_of,
              ElementsAre(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2));
}

}  // namespace
}  // namespace cpfeed::testing

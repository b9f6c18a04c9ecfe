#include "core/context/packed_context.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/max.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "core/attention/make_kv_exchange.h"
#include "core/base/status_exception.h"
#include "core/comm/loopback_communicator.h"
#include "core/context/sdpa.h"
#include "core/context/train_context.h"
#include "core/plan/shard_plan.h"
#include "tests/core/plan/packs.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed::testing {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<const ShardPlan> Balanced(const std::vector<int64_t>& lengths,
                                          int cp_size) {
  auto plan =
      PlanShards(OneRow(lengths), {.layout = Layout::kBalanced}, cp_size);
  EXPECT_THAT(plan, IsOk());
  return std::make_shared<const ShardPlan>(*std::move(plan));
}

AttentionGroup GroupOf(std::shared_ptr<const ShardPlan> plan,
                       std::unique_ptr<Communicator> end) {
  auto exchange = MakeKvExchange("planned");
  EXPECT_THAT(exchange, IsOk());
  return {.exchange = *std::move(exchange),
          .plan = std::move(plan),
          .communicator = std::move(end)};
}

// Two documents of 5 and 8 over 3 ranks: each row sees its own document only.
TEST(PackedContextTest, AttentionIsThatOfEachDocumentAlone) {
  const auto plan = Balanced({5, 8}, 3);
  const at::Tensor qkv = at::randn({3, 1, 2, 13, 4}, at::kDouble);
  const auto document = [&](int64_t begin, int64_t tokens) {
    const auto part = [&](int64_t i) {
      return qkv[i].narrow(2, begin, tokens);
    };
    return ScaledDotProductAttention(part(0), part(1), part(2), true);
  };
  const at::Tensor first = document(0, 5);
  const at::Tensor second = document(5, 8);
  auto ends = MakeLoopbackGroup(3);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([&, rank] {
      const std::vector<int32_t> index = LocalIndex(*plan, rank);
      const at::Tensor rows = at::tensor(
          std::vector<int64_t>(index.begin(), index.end()), at::kLong);
      const at::Tensor own = at::index_select(qkv, 3, rows);
      const auto factory = TrainContext(
          false, false, PackedContext(GroupOf(plan, std::move(ends[rank]))));
      ASSERT_THAT(factory, IsOk());
      const auto scope = (*factory)();
      ASSERT_THAT(scope, IsOk());
      const at::Tensor out =
          ScaledDotProductAttention(own[0], own[1], own[2], true);
      for (size_t row = 0; row < index.size(); ++row) {
        const at::Tensor& whole = index[row] < 5 ? first : second;
        const int64_t at = index[row] < 5 ? index[row] : index[row] - 5;
        EXPECT_LT(at::max((out.select(2, static_cast<int64_t>(row)) -
                           whole.select(2, at))
                              .abs())
                      .item<double>(),
                  1e-12);
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST(PackedContextTest, NestsAndLeavesNothingBehind) {
  EXPECT_EQ(PackedPartGroup(), nullptr);
  const ScopeFactory outer = PackedContext(
      GroupOf(Balanced({4}, 1), std::move(MakeLoopbackGroup(1)[0])));
  const ScopeFactory inner = PackedContext(
      GroupOf(Balanced({7}, 1), std::move(MakeLoopbackGroup(1)[0])));
  {
    const auto outer_scope = outer();
    ASSERT_THAT(outer_scope, IsOk());
    EXPECT_TRUE(InCpSdpa());
    EXPECT_EQ(PackedPartGroup()->part.num_tokens, 4);
    EXPECT_EQ(PackedPartGroup(), PackedPartGroup());  // One for all layers.
    {
      const auto inner_scope = inner();
      ASSERT_THAT(inner_scope, IsOk());
      EXPECT_EQ(PackedPartGroup()->part.num_tokens, 7);
      std::thread([] { EXPECT_EQ(PackedPartGroup(), nullptr); }).join();
    }
    EXPECT_EQ(PackedPartGroup()->part.num_tokens, 4);
  }
  EXPECT_FALSE(InCpSdpa());
  EXPECT_EQ(PackedPartGroup(), nullptr);
}

TEST(PackedContextTest, AStreamIsOneRow) {
  const auto scope = PackedContext(
      GroupOf(Balanced({4}, 1), std::move(MakeLoopbackGroup(1)[0])))();
  ASSERT_THAT(scope, IsOk());
  const at::Tensor rows = at::randn({2, 1, 2, 4});
  try {
    ScaledDotProductAttention(rows, rows, rows, true);
    FAIL() << "two rows were taken";
  } catch (const StatusException& error) {
    EXPECT_THAT(error.what(), HasSubstr("q has 2 rows; must have 1"));
  }
}

}  // namespace
}  // namespace cpfeed::testing

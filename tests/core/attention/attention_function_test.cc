#include "core/attention/attention_function.h"

#include <ATen/Parallel.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/rand.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "core/attention/cp_attention.h"
#include "core/attention/make_kv_exchange.h"
#include "core/base/status_exception.h"
#include "core/comm/loopback_communicator.h"
#include "core/plan/shard_plan.h"
#include "tests/core/plan/packs.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed::testing {
namespace {

using ::testing::HasSubstr;

// One sequence of 16 over 2 ranks: 8 rows each.
AttentionGroup GroupOf(std::unique_ptr<Communicator> end, int cp_size) {
  AttentionGroup group;
  group.exchange = *MakeKvExchange("ring");
  group.plan =
      std::make_shared<const ShardPlan>(*PlanShards(OneRow({16}), {}, cp_size));
  group.communicator = std::move(end);
  return group;
}

AttentionInputs RandomInputs() {
  const auto leaf = [](int64_t heads) {
    return at::rand({8, heads, 4}, at::kDouble).requires_grad_();
  };
  return {.q = leaf(4), .k = leaf(2), .v = leaf(2), .scale = 0.5};
}

// Two layers: gradients go through both, and are those of the backward pass
// called by hand.
TEST(AttentionFunctionTest, GradientsFlowThroughLayers) {
  auto ends = MakeLoopbackGroup(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      at::set_num_threads(1);
      const AttentionGroup group = GroupOf(std::move(ends[rank]), 2);
      const AttentionInputs inputs = RandomInputs();
      const auto first = DifferentiableAttention(inputs, group);
      ASSERT_THAT(first, IsOk());
      EXPECT_FALSE(first->lse.requires_grad());
      AttentionInputs inner = inputs;
      inner.q = first->out;
      const auto second = DifferentiableAttention(inner, group);
      ASSERT_THAT(second, IsOk());
      second->out.sum().backward();

      const auto by_hand = [&](const AttentionInputs& in,
                               const AttentionOutput& output,
                               const at::Tensor& dout) {
        const auto grads =
            ContextParallelAttentionBackward(*group.exchange, in, output, dout,
                                             *group.plan, *group.communicator);
        EXPECT_THAT(grads, IsOk());
        return *grads;
      };
      const AttentionGrads outer =
          by_hand(inner, *second, at::ones_like(second->out));
      const AttentionGrads whole = by_hand(inputs, *first, outer.dq);
      EXPECT_TRUE(inputs.q.grad().equal(whole.dq));
      EXPECT_TRUE(inputs.k.grad().equal(outer.dk.add(whole.dk)));
      EXPECT_TRUE(inputs.v.grad().equal(outer.dv.add(whole.dv)));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(AttentionFunctionTest, ErrorsOfTheForwardPassAreReturned) {
  const AttentionGroup group = GroupOf(std::move(MakeLoopbackGroup(1)[0]), 2);
  EXPECT_THAT(DifferentiableAttention(RandomInputs(), group),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("plan is for cp_size 2")));
}

TEST(AttentionFunctionTest, LostPeerEndsTheBackwardPassByItsName) {
  auto ends = MakeLoopbackGroup(2);
  std::thread peer([&] {
    // Leaves after its forward pass.
    const AttentionGroup group = GroupOf(std::move(ends[1]), 2);
    EXPECT_THAT(DifferentiableAttention(RandomInputs(), group), IsOk());
  });
  const AttentionGroup group = GroupOf(std::move(ends[0]), 2);
  const auto output = DifferentiableAttention(RandomInputs(), group);
  ASSERT_THAT(output, IsOk());
  peer.join();
  try {
    output->out.sum().backward();
    FAIL() << "must throw";
  } catch (const StatusException& error) {
    EXPECT_THAT(error.status(), StatusIs(absl::StatusCode::kUnavailable,
                                         HasSubstr("rank 1 of 2")));
  }
}

}  // namespace
}  // namespace cpfeed::testing

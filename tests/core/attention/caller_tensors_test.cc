// Tensors of callers: any strides, and never changed.

#include <ATen/ops/rand.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "core/attention/cp_attention.h"
#include "core/attention/make_kv_exchange.h"
#include "core/comm/loopback_communicator.h"
#include "core/plan/shard_plan.h"
#include "tests/core/plan/packs.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed::testing {
namespace {

using ::testing::HasSubstr;

class CallerTensorsTest : public ::testing::TestWithParam<std::string> {
 protected:
  struct Results {
    AttentionOutput output;
    AttentionGrads grads;
  };

  // One sequence of 6 in a slot of 8, one rank.
  Results RunOnce(const AttentionInputs& inputs, const at::Tensor& dout) {
    const auto exchange = MakeKvExchange(GetParam());
    const auto plan = PlanShards(OneRow({6}, {8}), {}, 1);
    const auto group = MakeLoopbackGroup(1);
    const auto output =
        ContextParallelAttention(**exchange, inputs, *plan, *group[0]);
    EXPECT_THAT(output, IsOk());
    const auto grads = ContextParallelAttentionBackward(
        **exchange, inputs, *output, dout, *plan, *group[0]);
    EXPECT_THAT(grads, IsOk());
    return {*output, *grads};
  }
};

INSTANTIATE_TEST_SUITE_P(All, CallerTensorsTest,
                         ::testing::ValuesIn(KvExchangeNames()),
                         [](const auto& info) { return info.param; });

// k is one row that stands for all, q has its heads in front.
TEST_P(CallerTensorsTest, StridesDoNotMatterAndNothingIsWritten) {
  const AttentionInputs strided = {
      .q = at::rand({4, 8, 3}, at::kDouble).transpose(0, 1),
      .k = at::rand({1, 2, 3}, at::kDouble).expand({8, 2, 3}),
      .v = at::rand({8, 2, 6}, at::kDouble).narrow(2, 1, 3)};
  const AttentionInputs plain = {.q = strided.q.clone().contiguous(),
                                 .k = strided.k.clone().contiguous(),
                                 .v = strided.v.clone().contiguous()};
  const at::Tensor dout = at::rand({8, 3, 4}, at::kDouble).transpose(1, 2);
  const Results results = RunOnce(strided, dout);
  const Results expected = RunOnce(plain, dout.contiguous());
  EXPECT_TRUE(results.output.out.equal(expected.output.out));
  EXPECT_TRUE(results.output.lse.equal(expected.output.lse));
  EXPECT_TRUE(results.grads.dq.equal(expected.grads.dq));
  EXPECT_TRUE(results.grads.dk.equal(expected.grads.dk));
  EXPECT_TRUE(results.grads.dv.equal(expected.grads.dv));
  EXPECT_TRUE(strided.q.equal(plain.q));
  EXPECT_TRUE(strided.k.equal(plain.k));
  EXPECT_TRUE(strided.v.equal(plain.v));
}

TEST_P(CallerTensorsTest, PaddingOfDoutIsNotRead) {
  const AttentionInputs inputs = {.q = at::rand({8, 4, 3}),
                                  .k = at::rand({8, 2, 3}),
                                  .v = at::rand({8, 2, 3})};
  const at::Tensor dout = at::rand({8, 4, 3});
  const Results expected = RunOnce(inputs, dout);
  dout.narrow(0, 6, 2).fill_(std::numeric_limits<float>::quiet_NaN());
  const Results results = RunOnce(inputs, dout);
  EXPECT_TRUE(results.grads.dq.equal(expected.grads.dq));
  EXPECT_TRUE(results.grads.dk.equal(expected.grads.dk));
  EXPECT_TRUE(results.grads.dv.equal(expected.grads.dv));
  EXPECT_EQ(results.grads.dk.narrow(0, 6, 2).abs().sum().item<float>(), 0);
}

TEST(BackwardInputsTest, OutputsOfAnotherShapeOrDtypeAreRefused) {
  const auto exchange = MakeKvExchange("ring");
  const auto plan = PlanShards(OneRow({8}), {}, 1);
  const auto group = MakeLoopbackGroup(1);
  const AttentionInputs inputs = {.q = at::rand({8, 4, 3}),
                                  .k = at::rand({8, 2, 3}),
                                  .v = at::rand({8, 2, 5})};
  const AttentionOutput right = {at::rand({8, 4, 5}), at::rand({8, 4})};
  const at::Tensor dout = at::rand({8, 4, 5});
  const auto backward = [&](const AttentionOutput& output,
                            const at::Tensor& gradient) {
    return ContextParallelAttentionBackward(**exchange, inputs, output,
                                            gradient, *plan, *group[0]);
  };
  EXPECT_THAT(backward(right, dout), IsOk());
  EXPECT_THAT(backward(right, at::rand({8, 4, 3})),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("dout is Float [8, 4, 3]; must be Float "
                                 "[8, 4, 5]")));
  EXPECT_THAT(backward(right, dout.to(at::kDouble)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("dout is Double [8, 4, 5]; must be Float")));
  EXPECT_THAT(backward({right.out, at::rand({4, 8})}, dout),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("lse is Float [4, 8]; must be Float [8, 4]")));
}

}  // namespace
}  // namespace cpfeed::testing

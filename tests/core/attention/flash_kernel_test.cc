#include "core/attention/flash_kernel.h"

#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace cpfeed {
namespace {

// Two batch entries of 5 queries and keys, grouped heads, values wider than
// keys; the last two keys are masked.
FlashInputs InputsOf(at::ScalarType type) {
  at::Tensor mask = at::full({2, 1, 5, 5}, 0.0, at::kDouble);
  mask.narrow(3, 3, 2).fill_(-std::numeric_limits<double>::infinity());
  return {.q = at::rand({2, 5, 4, 3}, at::kDouble).to(type),
          .k = at::rand({2, 5, 2, 3}, at::kDouble).to(type),
          .v = at::rand({2, 5, 2, 6}, at::kDouble).to(type),
          .mask = mask.to(type),
          .scale = 0.5};
}

FlashInputs As(FlashInputs in, at::ScalarType type) {
  in.q = in.q.to(type);
  in.k = in.k.to(type);
  in.v = in.v.to(type);
  in.mask = in.mask->to(type);
  return in;
}

double Difference(const at::Tensor& a, const at::Tensor& b) {
  return a.to(at::kDouble).sub(b.to(at::kDouble)).abs().max().item<double>();
}

// Float64 itself is checked beside the dense reference.
class FlashBackwardTest : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(FlashBackwardTest, EveryDtypeIsNearFloat64) {
  const at::ScalarType type = GetParam();
  const double tolerance = type == at::kFloat ? 2e-6 : 5e-2;
  const FlashInputs in = InputsOf(type);
  const FlashInputs exact = As(in, at::kDouble);
  const FlashResult forward = FlashForward(exact);
  const at::Tensor dout = at::rand({2, 5, 4, 6}, at::kDouble).to(type);
  const FlashGrads grads =
      FlashBackward(in, forward.out.to(type), forward.lse.to(at::kFloat), dout);
  const FlashGrads expected =
      FlashBackward(exact, forward.out, forward.lse, dout.to(at::kDouble));
  EXPECT_EQ(grads.dq.scalar_type(), type);
  EXPECT_EQ(grads.dk.sizes(), in.k.sizes());
  EXPECT_LE(Difference(grads.dq, expected.dq), tolerance);
  EXPECT_LE(Difference(grads.dk, expected.dk), tolerance);
  EXPECT_LE(Difference(grads.dv, expected.dv), tolerance);
  // Nothing flows through masked keys.
  EXPECT_EQ(grads.dk.narrow(1, 3, 2).abs().max().item<double>(), 0);
  EXPECT_EQ(grads.dv.narrow(1, 3, 2).abs().max().item<double>(), 0);
}

INSTANTIATE_TEST_SUITE_P(All, FlashBackwardTest,
                         ::testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& info) {
                           return std::string(c10::toString(info.param));
                         });

TEST(FastBackwardTypeTest, WiderInputsKeepTheirs) {
  EXPECT_EQ(FastBackwardType(at::kDouble), at::kDouble);
  EXPECT_EQ(FastBackwardType(at::kFloat), at::kFloat);
  const at::ScalarType narrow = FastBackwardType(at::kBFloat16);
  EXPECT_TRUE(narrow == at::kBFloat16 || narrow == at::kFloat);
}

}  // namespace
}  // namespace cpfeed

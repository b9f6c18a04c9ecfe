#include "core/attention/rope.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/max.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <random>

#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::StatusIs;
using ::testing::HasSubstr;

at::Tensor Random(int64_t tokens, int64_t heads, int64_t dim) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  at::Tensor x = at::zeros({tokens, heads, dim}, at::kDouble);
  auto* const data = x.mutable_data_ptr<double>();
  for (int64_t i = 0; i < x.numel(); ++i) data[i] = normal(random);
  return x;
}

double Difference(const at::Tensor& a, const at::Tensor& b) {
  return at::max((a - b).abs()).item<double>();
}

// Pair by pair; sections say whose position turns a pair.
at::Tensor SlowRope(const at::Tensor& x, const at::Tensor& positions,
                    const std::vector<int64_t>& sections, double base) {
  at::Tensor out = x.clone();
  const int64_t half = x.size(2) / 2;
  for (int64_t t = 0; t < x.size(0); ++t) {
    for (int64_t i = 0; i < half; ++i) {
      int64_t component = 0;
      for (int64_t end = sections[0]; i >= end; end += sections[component]) {
        ++component;
      }
      const double angle = positions[component][t].item<double>() *
                           std::pow(base, -2.0 * i / x.size(2));
      for (int64_t h = 0; h < x.size(1); ++h) {
        const double a = x[t][h][i].item<double>();
        const double b = x[t][h][i + half].item<double>();
        out[t][h][i] = a * std::cos(angle) - b * std::sin(angle);
        out[t][h][i + half] = b * std::cos(angle) + a * std::sin(angle);
      }
    }
  }
  return out;
}

TEST(RopeTest, TurnsPairsByTheirPosition) {
  const at::Tensor x = Random(6, 2, 8);
  const at::Tensor positions = at::arange(100, 106, at::kLong);
  const auto out = ApplyRope(x, positions);
  ASSERT_THAT(out, IsOk());
  EXPECT_LT(Difference(*out, SlowRope(x, positions.unsqueeze(0), {4}, 1e4)),
            1e-12);
}

TEST(RopeTest, SectionsTurnByTheirComponent) {
  const at::Tensor x = Random(5, 2, 12);
  const at::Tensor positions =
      at::stack({at::arange(5, at::kLong), at::arange(7, 12, at::kLong),
                 at::zeros({5}, at::kLong)});
  const auto out =
      ApplyRope(x, positions, {.base = 500.0, .mrope_section = {1, 2, 3}});
  ASSERT_THAT(out, IsOk());
  EXPECT_LT(Difference(*out, SlowRope(x, positions, {1, 2, 3}, 500.0)), 1e-12);
}

// Of a shard's rows: what the whole stream gives there.
TEST(RopeTest, ShardsGetWhatTheStreamGets) {
  const at::Tensor x = Random(8, 1, 4);
  const at::Tensor positions = at::arange(8, at::kLong);
  const auto whole = ApplyRope(x, positions);
  const auto rows = [](const at::Tensor& t) {
    return at::cat({t.narrow(0, 0, 2), t.narrow(0, 6, 2)});
  };
  const auto shard = ApplyRope(rows(x), rows(positions));
  ASSERT_THAT(shard, IsOk());
  EXPECT_EQ(Difference(*shard, rows(*whole)), 0);
}

// A rotation's transpose is its inverse.
TEST(RopeTest, GradientsTurnBack) {
  const at::Tensor x = Random(4, 2, 6).set_requires_grad(true);
  const at::Tensor positions = at::arange(4, at::kLong);
  const auto out = ApplyRope(x, positions);
  ASSERT_THAT(out, IsOk());
  torch::autograd::backward({*out}, {out->detach()});
  EXPECT_LT(Difference(x.grad(), x.detach()), 1e-12);
}

TEST(RopeTest, KeepsTheDType) {
  const auto out =
      ApplyRope(at::ones({2, 1, 4}, at::kBFloat16), at::zeros({2}, at::kInt));
  ASSERT_THAT(out, IsOk());
  EXPECT_EQ(out->scalar_type(), at::kBFloat16);
  EXPECT_EQ((*out - 1).abs().sum().item<float>(), 0);
}

TEST(RopeTest, WrongInputIsNamed) {
  const at::Tensor x = at::zeros({4, 1, 8});
  EXPECT_THAT(ApplyRope(x, at::zeros({5}, at::kLong)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("integers of shape [4] or [n_rope, 4]")));
  EXPECT_THAT(
      ApplyRope(x, at::zeros({3, 4}, at::kLong), {.mrope_section = {1, 1, 1}}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("mrope_section is [1, 1, 1]; must have 3 "
                         "numbers of at least 0 that sum to D / 2 = 4")));
  // They sum to D / 2, but lie outside of it.
  EXPECT_THAT(
      ApplyRope(x, at::zeros({2, 4}, at::kLong), {.mrope_section = {-1, 5}}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("mrope_section is [-1, 5]; must have 2 numbers of at "
                         "least 0 that sum to D / 2 = 4")));
  EXPECT_THAT(
      ApplyRope(at::zeros({4, 1, 7}), at::zeros({4}, at::kLong)),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("even D")));
}

}  // namespace
}  // namespace cpfeed

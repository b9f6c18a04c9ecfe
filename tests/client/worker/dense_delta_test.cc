// The model's one-device gated delta rule beside answers that an independent
// float64 implementation gave.

#include "client/worker/dense_delta.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/max.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "tests/testing/golden.h"

namespace cpfeed::testing {
namespace {

using ::nlohmann::json;

void Flatten(const json& value, std::vector<double>& into) {
  if (!value.is_array()) return into.push_back(value.get<double>());
  for (const json& item : value) Flatten(item, into);
}

at::Tensor TensorOf(const json& value) {
  std::vector<int64_t> shape;
  for (const json* axis = &value; axis->is_array(); axis = &(*axis)[0]) {
    shape.push_back(static_cast<int64_t>(axis->size()));
    if (axis->empty()) break;
  }
  std::vector<double> numbers;
  Flatten(value, numbers);
  return at::from_blob(numbers.data(), shape, at::kDouble).clone();
}

class DenseDeltaTest : public ::testing::TestWithParam<json> {};

TEST_P(DenseDeltaTest, EveryDocumentHasItsAnswer) {
  const json& item = GetParam();
  const GatedDeltaOptions options = {.key_heads = item["Hk"],
                                     .value_heads = item["Hv"],
                                     .key_dim = item["K"],
                                     .value_dim = item["V"],
                                     .scale = item["scale"],
                                     .qk_l2norm = item["qk_l2norm"]};
  const auto sums = item["cu_seqlens"].get<std::vector<int64_t>>();
  for (size_t d = 0; d + 1 < sums.size(); ++d) {
    const int64_t tokens = sums[d + 1] - sums[d];
    const auto whole = [&](const char* name) {
      return TensorOf(item["in"][name]);
    };
    const auto rows = [&](const char* name) {
      return whole(name).narrow(0, sums[d], tokens);
    };
    const DenseDelta given =
        item["in"].contains("q")
            ? DenseDeltaRule(
                  {rows("q"), rows("k"), rows("v"), rows("g"), rows("beta")},
                  options)
            : DenseGatedDelta(
                  {rows("mixed_qkv"), whole("conv_weight"), rows("a"),
                   rows("b"), whole("A_log"), whole("dt_bias")},
                  options);
    // Outputs have 12 digits.
    const auto expect_near = [&](const at::Tensor& is, const at::Tensor& must) {
      EXPECT_EQ(is.sizes(), must.sizes());
      EXPECT_LT(at::max((is - must).abs()).item<double>(), 1e-9);
    };
    expect_near(given.out, TensorOf(item["out"]).narrow(0, sums[d], tokens));
    expect_near(given.final_state, TensorOf(item["final_state"])[d]);
    if (!item.contains("conv_out")) continue;
    expect_near(given.conv_out,
                TensorOf(item["conv_out"]).narrow(0, sums[d], tokens));
    expect_near(given.g, TensorOf(item["g"]).narrow(0, sums[d], tokens));
    expect_near(given.beta, TensorOf(item["beta"]).narrow(0, sums[d], tokens));
  }
}

INSTANTIATE_TEST_SUITE_P(All, DenseDeltaTest,
                         ::testing::ValuesIn(GoldenCases("gated_delta.json")),
                         GoldenId);

}  // namespace
}  // namespace cpfeed::testing

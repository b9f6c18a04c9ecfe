// MakeCpBatchAndContext and ShardBatchContiguous beside what the named releases
// of NeMo AutoModel did.

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/comm/loopback_communicator.h"
#include "core/context/contiguous_batch.h"
#include "core/context/cp_batch.h"
#include "core/context/sdpa.h"
#include "tests/testing/golden.h"

namespace cpfeed::testing {
namespace {

using ::nlohmann::json;

at::Tensor TorchTensorOf(const json& value) {
  const std::string dtype = value["dt"];
  const auto shape = value["sh"].get<std::vector<int64_t>>();
  at::Tensor wide = at::empty(shape, at::kDouble);
  int64_t i = 0;
  for (const json& number : value["v"]) {
    wide.mutable_data_ptr<double>()[i++] = number.get<double>();
  }
  return wide.to(dtype == "bool"  ? at::kBool
                 : dtype == "i32" ? at::kInt
                 : dtype == "f32" ? at::kFloat
                                  : at::kLong);
}

struct Input {
  TensorBatch batch;
  at::Tensor loss_mask;  // Undefined where there is none.
};

Input InputOf(const json& item) {
  Input input;
  for (const auto& [name, value] : item["in"].items()) {
    if (value.is_null()) continue;
    if (name == "loss_mask_arg") {
      input.loss_mask = TorchTensorOf(value);
    } else {
      input.batch[name] = TorchTensorOf(value);
    }
  }
  return input;
}

void ExpectEqual(const at::Tensor& tensor, const json& expected,
                 const std::string& name) {
  EXPECT_EQ(tensor.sizes(), TorchTensorOf(expected).sizes()) << name;
  EXPECT_TRUE(at::equal(tensor, TorchTensorOf(expected))) << name;
}

// What one rank sees inside the context and behind it.
void ExpectRank(const json& expected, Input input,
                std::shared_ptr<Communicator> group, Parity parity) {
  const auto factory = MakeCpBatchAndContext(
      std::move(group), input.batch,
      input.loss_mask.defined() ? &input.loss_mask : nullptr,
      {.parity = parity});
  ASSERT_TRUE(factory.ok()) << factory.status();
  {
    const auto scope = (*factory)();
    ASSERT_TRUE(scope.ok()) << scope.status();
    for (const auto& [name, value] : expected["inside"].items()) {
      ASSERT_TRUE(input.batch.contains(name)) << name;
      ExpectEqual(input.batch[name], value, name);
    }
    EXPECT_EQ(input.batch.size(), expected["inside"].size());
    if (expected.contains("loss_mask_arg_inside") &&
        !expected["loss_mask_arg_inside"].is_null()) {
      ExpectEqual(input.loss_mask, expected["loss_mask_arg_inside"],
                  "loss_mask");
    }
  }
  for (const auto& [name, shape] : expected["after_shapes"].items()) {
    EXPECT_EQ(input.batch[name].sizes().vec(),
              shape.get<std::vector<int64_t>>())
        << name;
  }
  if (expected.contains("position_ids_after")) {
    ExpectEqual(input.batch["position_ids"], expected["position_ids_after"],
                "position_ids");
  }
}

// What it is refused with; entering may do so too.
absl::Status RefusalOf(Input input, std::shared_ptr<Communicator> group,
                       Parity parity) {
  const auto factory = MakeCpBatchAndContext(
      std::move(group), input.batch,
      input.loss_mask.defined() ? &input.loss_mask : nullptr,
      {.parity = parity});
  if (!factory.ok()) return factory.status();
  return (*factory)().status();
}

void ExpectContiguous(const json& item, const json& ranks) {
  const Input input = InputOf(item);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    SCOPED_TRACE(rank);
    const auto shard = ShardBatchContiguous(
        input.batch,
        {.cp_size = item["args"]["cp_size"], .cp_rank = static_cast<int>(rank)},
        {.padding_token_id = item["args"]["padding_token_id"]});
    ASSERT_TRUE(shard.ok()) << shard.status();
    const json& expected = ranks[rank];
    EXPECT_EQ(shard->original_seq_len, expected["original_seq_len"]);
    EXPECT_EQ(shard->padded_seq_len, expected["padded_seq_len"]);
    EXPECT_EQ(shard->batch.size(), expected["batch"].size());
    for (const auto& [name, value] : expected["batch"].items()) {
      ASSERT_TRUE(shard->batch.contains(name)) << name;
      ExpectEqual(shard->batch.at(name), value, name);
    }
  }
}

class ContextGoldenTest : public ::testing::TestWithParam<json> {
 protected:
  void Run(const std::string& era, Parity parity) {
    const json& item = GetParam();
    if (item["fn"] == "set_rotate_method") {
      const auto method =
          ParseRotateMethod(item["args"]["rotate_method"].get<std::string>());
      EXPECT_EQ(method.ok(), !item["out"]["torch"].contains("err"));
      return;
    }
    if (item["fn"] == "shard_batch_contiguous") {
      if (!item["out"].contains(era)) GTEST_SKIP() << "not in this release";
      ExpectContiguous(item, item["out"][era]["ranks"]);
      return;
    }
    const int cp_size = item["args"]["cp_size"];
    const json& expected = item["out"][era];
    for (int rank = 0; rank < cp_size; ++rank) {
      SCOPED_TRACE(rank);
      auto group = MakeLoopbackGroup(cp_size);
      if (expected.contains("err")) {
        const absl::Status refusal =
            RefusalOf(InputOf(item), std::move(group[rank]), parity);
        EXPECT_EQ(refusal.code(), absl::StatusCode::kInvalidArgument);
        const std::string type = expected["err"]["type"];
        // 0.4 asserts that the width divides, which has a name of its own here.
        EXPECT_EQ(ReasonOf(refusal), era == "A" && type == "AssertionError"
                                         ? kNotDivisible
                                         : type);
      } else {
        ExpectRank(expected["ranks"][rank], InputOf(item),
                   std::move(group[rank]), parity);
      }
    }
  }
};

TEST_P(ContextGoldenTest, Release04) { Run("A", Parity::kAutomodel04); }

TEST_P(ContextGoldenTest, Release07) { Run("B2", Parity::kAutomodel07); }

INSTANTIATE_TEST_SUITE_P(
    All, ContextGoldenTest,
    ::testing::ValuesIn(GoldenCases("automodel_bshd_context.json")),
    [](const auto& info) {
      return info.param["id"].template get<std::string>();
    });

}  // namespace
}  // namespace cpfeed::testing

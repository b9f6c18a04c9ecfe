#include "core/context/contiguous_batch.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "core/base/error.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int64_t> NumbersOf(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.to(at::kLong).contiguous();
  const int64_t* const first = dense.const_data_ptr<int64_t>();
  return std::vector<int64_t>(first, first + dense.numel());
}

TensorBatch ThreeTokens() {
  return {{"input_ids", at::arange(1, 4, at::kLong).unsqueeze(0)},
          {"labels", at::arange(1, 4, at::kLong).unsqueeze(0)},
          {"doc_ids", at::ones({1, 3}, at::kLong)},
          {"attention_mask", at::ones({1, 3}, at::kLong)},
          {"temperature", at::ones({2})}};
}

// 1 2 | 3 and the padding.
TEST(ShardBatchContiguousTest, TheLastRankGetsThePaddingByItsMeaning) {
  const auto shard = ShardBatchContiguous(
      ThreeTokens(), {.cp_size = 2, .cp_rank = 1}, {.padding_token_id = 99});
  ASSERT_THAT(shard, IsOk());
  EXPECT_EQ(shard->original_seq_len, 3);
  EXPECT_EQ(shard->padded_seq_len, 4);
  EXPECT_THAT(NumbersOf(shard->batch.at("input_ids")), ElementsAre(3, 99));
  EXPECT_THAT(NumbersOf(shard->batch.at("labels")), ElementsAre(3, -100));
  EXPECT_THAT(NumbersOf(shard->batch.at("position_ids")), ElementsAre(2, 3));
  EXPECT_THAT(NumbersOf(shard->batch.at("doc_ids")), ElementsAre(1, 0));
  EXPECT_FALSE(shard->batch.contains("attention_mask"));
  EXPECT_EQ(shard->batch.at("temperature").size(0), 2);  // Left whole.
}

TEST(ShardBatchContiguousTest, PadMultipleWidensTheParts) {
  const auto shard = ShardBatchContiguous(
      ThreeTokens(), {.cp_size = 2, .cp_rank = 0}, {.pad_multiple = 4});
  ASSERT_THAT(shard, IsOk());
  EXPECT_EQ(shard->padded_seq_len, 8);
  EXPECT_EQ(shard->batch.at("input_ids").size(1), 4);
}

TEST(ShardBatchContiguousTest, LossMaskStandsInForMissingLabels) {
  TensorBatch batch = ThreeTokens();
  batch.erase("labels");
  batch["loss_mask"] = at::ones({1, 3}, at::kLong);
  const auto shard = ShardBatchContiguous(batch, {.cp_size = 2, .cp_rank = 1});
  ASSERT_THAT(shard, IsOk());
  EXPECT_THAT(NumbersOf(shard->batch.at("labels")), ElementsAre(1, -100));
  EXPECT_FALSE(shard->batch.contains("loss_mask"));
}

TEST(ShardBatchContiguousTest, ComponentsOfPositionsAreCutAlongTheirTokens) {
  TensorBatch batch = ThreeTokens();
  batch["position_ids"] = at::arange(9, at::kLong).reshape({3, 1, 3});
  const auto shard = ShardBatchContiguous(batch, {.cp_size = 2, .cp_rank = 1});
  ASSERT_THAT(shard, IsOk());
  EXPECT_EQ(shard->batch.at("position_ids").sizes().vec(),
            (std::vector<int64_t>{3, 1, 2}));
  EXPECT_THAT(NumbersOf(shard->batch.at("position_ids")),
              ElementsAre(2, 3, 5, 6, 8, 9));
}

TEST(ShardBatchContiguousTest, EmbeddingsKeepTheirGradients) {
  TensorBatch batch = ThreeTokens();
  batch.erase("input_ids");
  const at::Tensor embeddings = at::ones({1, 3, 2}).requires_grad_(true);
  batch["inputs_embeds"] = embeddings;
  const auto shard = ShardBatchContiguous(batch, {.cp_size = 2, .cp_rank = 1});
  ASSERT_THAT(shard, IsOk());
  const at::Tensor& part = shard->batch.at("inputs_embeds");
  EXPECT_THAT(NumbersOf(part), ElementsAre(1, 1, 0, 0));
  part.sum().backward();
  EXPECT_THAT(NumbersOf(embeddings.grad()), ElementsAre(0, 0, 0, 0, 1, 1));
}

TEST(ShardBatchContiguousTest, OneRankKeepsTheBatchAsItIs) {
  const auto shard = ShardBatchContiguous(ThreeTokens(), {});
  ASSERT_THAT(shard, IsOk());
  EXPECT_EQ(shard->padded_seq_len, 3);
  EXPECT_TRUE(shard->batch.contains("attention_mask"));
}

TEST(ShardBatchContiguousTest, WrongBatchesAreNamed) {
  const ParityRank rank = {.cp_size = 2};
  TensorBatch batch = ThreeTokens();
  batch.erase("labels");
  EXPECT_THAT(ShardBatchContiguous(batch, rank),
              AllOf(StatusIs(absl::StatusCode::kInvalidArgument,
                             HasSubstr("neither labels nor loss_mask")),
                    HasReason("KeyError")));
  batch = ThreeTokens();
  batch["inputs_embeds"] = at::ones({1, 3, 2});
  EXPECT_THAT(ShardBatchContiguous(batch, rank), HasReason("AssertionError"));
  batch = ThreeTokens();
  batch["labels"] = at::zeros({1, 4}, at::kLong);
  EXPECT_THAT(ShardBatchContiguous(batch, rank),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("labels has 4 positions; must have 3")));
  EXPECT_THAT(ShardBatchContiguous(ThreeTokens(), {.cp_size = 2, .cp_rank = 2}),
              HasReason(kBadOption));
}

}  // namespace
}  // namespace cpfeed::testing

// The native mode of MakeCpBatchForTe.

#include "core/context/cp_batch_thd.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

at::Tensor Longs(std::vector<int64_t> numbers,
                 const std::vector<int64_t>& shape) {
  return at::from_blob(numbers.data(), shape, at::kLong).clone();
}

// Row of 8: a sequence of 3 in a slot of 4, and one of 4. Labels are the next
// tokens, shifted before they came.
TensorBatch Batch() {
  return {{"input_ids", Longs({1, 2, 3, 0, 4, 5, 6, 7}, {1, 8})},
          {"labels", Longs({2, 3, -100, -100, 5, 6, 7, -100}, {1, 8})},
          {"seq_lens", Longs({3, 4, -1000}, {1, 3})},
          {"seq_lens_padded", Longs({4, 4, -1000}, {1, 3})}};
}

std::vector<TeBatch> Shards(const TensorBatch& batch, ParityRank rank,
                            const CpThdOptions& options = {}) {
  auto shards = MakeCpBatchForTe(batch, options, rank);
  EXPECT_THAT(shards, IsOk());
  return *std::move(shards);
}

void ExpectLongs(const at::Tensor& tensor, std::vector<int64_t> numbers) {
  const int64_t size = static_cast<int64_t>(numbers.size());
  EXPECT_TRUE(at::equal(tensor.to(at::kLong).reshape({-1}),
                        Longs(std::move(numbers), {size})))
      << tensor.sizes();
}

// Rank 0 has the head and the tail of each slot, rank 1 the middle.
TEST(NativeCpBatchForTeTest, BothBoundariesAndALayoutMaskAreAlwaysThere) {
  const TeBatch first = Shards(Batch(), {.cp_size = 2, .cp_rank = 0})[0];
  ExpectLongs(first.tensors.at("input_ids"), {1, 0, 4, 7});
  ExpectLongs(first.tensors.at("position_ids"), {0, 3, 0, 3});
  ExpectLongs(first.tensors.at("padding_mask"), {0, 1, 0, 0});
  ExpectLongs(first.tensors.at("cu_seqlens"), {0, 3, 7});
  ExpectLongs(first.tensors.at("cu_seqlens_padded"), {0, 4, 8});
  EXPECT_EQ(first.tensors.at("cu_seqlens").scalar_type(), at::kInt);
  EXPECT_EQ(first.tensors.at("max_seqlen").item<int>(), 4);
  EXPECT_EQ(first.tensors.at("max_seqlen_padded").item<int>(), 4);
  EXPECT_EQ(first.values.at("cp_size"), "2");
  EXPECT_EQ(first.values.at("num_label_tokens"), "2");
  EXPECT_EQ(first.values.at("num_label_tokens_global"), "5");
  ExpectLongs(*first.local_indices, {0, 3, 4, 7});
  const TeBatch second = Shards(Batch(), {.cp_size = 2, .cp_rank = 1})[0];
  ExpectLongs(second.tensors.at("input_ids"), {2, 3, 5, 6});
  EXPECT_EQ(second.values.at("num_label_tokens"), "3");
}

// Shifting shards would give rank 0 the labels 0 4 7 -100.
TEST(NativeCpBatchForTeTest, LabelsTravelWithTheirTokensAndAreNeverShifted) {
  ExpectLongs(
      Shards(Batch(), {.cp_size = 2, .cp_rank = 0})[0].tensors.at("labels"),
      {2, -100, 5, -100});
  ExpectLongs(
      Shards(Batch(), {.cp_size = 2, .cp_rank = 1})[0].tensors.at("labels"),
      {3, -100, 6, 7});
}

// Positions that restart nowhere, or everywhere, are only values.
TEST(NativeCpBatchForTeTest, BoundariesComeFromTheLengthsNotFromPositions) {
  TensorBatch batch = Batch();
  for (const at::Tensor& positions :
       {at::arange(1024, 1032, at::kLong).reshape({1, 8}),
        at::zeros({1, 8}, at::kLong)}) {
    batch["position_ids"] = positions;
    const TeBatch shard = Shards(batch, {.cp_size = 2, .cp_rank = 1})[0];
    ExpectLongs(shard.tensors.at("cu_seqlens"), {0, 3, 7});
    ExpectLongs(shard.tensors.at("cu_seqlens_padded"), {0, 4, 8});
    EXPECT_TRUE(at::equal(shard.tensors.at("position_ids"),
                          positions.reshape({-1}).index_select(
                              0, shard.local_indices->to(at::kLong))));
  }
}

// Multi-dimensional positions are cut along their tokens, not their rows.
TEST(NativeCpBatchForTeTest, ComponentsOfPositionsStayTogether) {
  TensorBatch batch = Batch();
  batch["position_ids"] = at::arange(24, at::kLong).reshape({3, 1, 8});
  const TeBatch shard = Shards(batch, {.cp_size = 2, .cp_rank = 0})[0];
  EXPECT_EQ(shard.tensors.at("position_ids").sizes().vec(),
            (std::vector<int64_t>{3, 4}));
  ExpectLongs(shard.tensors.at("position_ids"),
              {0, 3, 4, 7, 8, 11, 12, 15, 16, 19, 20, 23});
}

TEST(NativeCpBatchForTeTest, EmbeddingsKeepTheirDtypeAndOthersAreShardedToo) {
  TensorBatch batch = Batch();
  batch["input_ids"] = at::full({1, 8, 2}, 0.5, at::kBFloat16);
  batch["loss_mask"] = at::arange(8, at::kFloat).reshape({1, 8});
  const TeBatch shard = Shards(batch, {.cp_size = 2, .cp_rank = 1})[0];
  EXPECT_EQ(shard.tensors.at("input_ids").scalar_type(), at::kBFloat16);
  EXPECT_EQ(shard.tensors.at("input_ids").sizes().vec(),
            (std::vector<int64_t>{4, 2}));
  ExpectLongs(shard.tensors.at("loss_mask"), {1, 2, 5, 6});
}

// Two rows, a chunk each, with its own boundaries.
TEST(NativeCpBatchForTeTest, EachChunkIsABatchOfItsOwn) {
  const TensorBatch batch = {
      {"input_ids", at::arange(16, at::kLong).reshape({2, 8})},
      {"labels", at::arange(16, at::kLong).reshape({2, 8})},
      {"seq_lens", Longs({4, 4, 8, -1000}, {2, 2})}};
  const std::vector<TeBatch> chunks =
      Shards(batch, {.cp_size = 2, .cp_rank = 0}, {.batch = {.num_chunks = 2}});
  ASSERT_EQ(chunks.size(), 2);
  ExpectLongs(chunks[0].tensors.at("cu_seqlens"), {0, 4, 8});
  ExpectLongs(chunks[1].tensors.at("cu_seqlens"), {0, 8});
  ExpectLongs(chunks[1].tensors.at("input_ids"), {8, 9, 14, 15});
  EXPECT_EQ(chunks[1].values.at("num_label_tokens"), "4");
  EXPECT_EQ(chunks[1].values.at("num_label_tokens_global"), "16");
}

// Over all ranks of any layout each kept position is there once.
TEST(NativeCpBatchForTeTest, EveryLayoutIsAPermutation) {
  for (const Layout layout :
       {Layout::kContiguous, Layout::kHeadTailPerRow,
        Layout::kHeadTailPerSequence, Layout::kStriped, Layout::kBalanced}) {
    std::vector<bool> seen(8);
    for (int rank = 0; rank < 2; ++rank) {
      const TeBatch shard = Shards(Batch(), {.cp_size = 2, .cp_rank = rank},
                                   {.layout = {.layout = layout}})[0];
      const at::Tensor index = *shard.local_indices;
      for (int64_t row = 0; row < index.size(0); ++row) {
        EXPECT_FALSE(seen[index[row].item<int>()]);
        seen[index[row].item<int>()] = true;
      }
    }
    // BALANCED leaves padding out.
    EXPECT_EQ(std::count(seen.begin(), seen.end(), true),
              layout == Layout::kBalanced ? 7 : 8);
  }
}

// With 3 and 5 tokens in their slots TransformerEngine would read wrong rows.
TEST(NativeCpBatchForTeTest, WhatCannotBeShardedIsRefusedOrPadded) {
  TensorBatch batch = Batch();
  batch["seq_lens"] = Longs({3, 5}, {1, 2});
  batch.erase("seq_lens_padded");
  EXPECT_THAT(MakeCpBatchForTe(batch, CpThdOptions(), {.cp_size = 2}),
              AllOf(StatusIs(absl::StatusCode::kInvalidArgument,
                             HasSubstr("sequence 0: 3")),
                    HasReason(kNotDivisible)));
  const TeBatch shard =
      Shards(batch, {.cp_size = 2}, {.batch = {.auto_pad = true}})[0];
  ExpectLongs(shard.tensors.at("cu_seqlens"), {0, 3, 8});
  ExpectLongs(shard.tensors.at("cu_seqlens_padded"), {0, 4, 12});
}

TEST(NativeCpBatchForTeTest, WrongUseIsNamed) {
  EXPECT_THAT(MakeCpBatchForTe(Batch(), CpThdOptions(), {}, "bshd"),
              AllOf(StatusIs(absl::StatusCode::kInvalidArgument,
                             HasSubstr("qkv_format is bshd; must be thd")),
                    HasReason(kBadOption)));
  EXPECT_THAT(
      MakeCpBatchForTe(Batch(), CpThdOptions(), {.cp_size = 2, .cp_rank = 2}),
      HasReason(kBadOption));
  TensorBatch batch = Batch();
  batch["seq_lens"] = Longs({8}, {1});
  EXPECT_THAT(MakeCpBatchForTe(batch, CpThdOptions(), {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("seq_lens has 1 axes")));
}

}  // namespace
}  // namespace cpfeed::testing

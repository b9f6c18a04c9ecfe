#include "core/thd/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/error.h"
#include "tests/testing/packed_batches.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::CountingBatch;
using ::cpfeed::testing::CountingTensor;
using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::Ragged;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Origin = ThdTensor::Origin;

TEST(ConvertToThdTest, ChunksAreIndependentStreams) {
  // a a a . b b . . | c c c c c c c c || d d d d d d . . | e e e . . . . .
  PackedBatch batch = CountingBatch(4, 8);
  batch.seq_lens = Ragged({{3, 2}, {8}, {6}, {3, 0}});
  batch.seq_lens_padded = Ragged({{4, 4}, {8}, {8}, {4, 4}});
  const auto thd = ConvertToThd(batch, {.num_chunks = 2});
  ASSERT_THAT(thd, IsOk());
  EXPECT_EQ(thd->num_rows, 4);
  EXPECT_EQ(thd->row_width, 8);
  ASSERT_EQ(thd->chunks.size(), 2);

  const ThdChunk& first = thd->chunks[0];
  EXPECT_THAT(first.lengths.row_splits, ElementsAre(0, 2, 3));
  EXPECT_THAT(first.cu_seqlens, ElementsAre(0, 3, 5, 13));
  EXPECT_THAT(first.cu_seqlens_padded, ElementsAre(0, 4, 8, 16));
  EXPECT_EQ(first.max_seqlen, 8);
  EXPECT_EQ(first.max_seqlen_padded, 8);
  EXPECT_EQ(first.source_begin, 0);
  EXPECT_EQ(first.source_tokens, 16);
  EXPECT_EQ(first.total_tokens, 16);

  const ThdChunk& second = thd->chunks[1];
  EXPECT_THAT(second.lengths.row_splits, ElementsAre(0, 1, 3));
  EXPECT_THAT(second.cu_seqlens, ElementsAre(0, 6, 9, 9));
  EXPECT_THAT(second.cu_seqlens_padded, ElementsAre(0, 8, 12, 16));
  EXPECT_EQ(second.max_seqlen, 6);
  EXPECT_EQ(second.max_seqlen_padded, 8);
  EXPECT_EQ(second.source_begin, 16);
  EXPECT_EQ(second.source_tokens, 16);
}

TEST(ConvertToThdTest, TensorsReferToTheBytesOfTheBatch) {
  PackedBatch batch = CountingBatch(1, 8);
  batch.position_ids = CountingTensor({3, 1, 8});
  batch.padding_mask =
      Tensor::FromVector<int64_t>({1, 8}, std::vector<int64_t>(8, 0));
  batch.extras.push_back(
      {.name = "loss_mask", .tensor = CountingTensor({1, 8})});
  batch.extras.push_back({.name = "vision",
                          .tensor = CountingTensor({2, 1, 8, 5}),
                          .sequence_axis = 2});
  const auto thd = ConvertToThd(batch, {.padding_token_id = 7});
  ASSERT_THAT(thd, IsOk());
  EXPECT_EQ(thd->padding_token_id, 7);
  ASSERT_EQ(thd->tensors.size(), 6);

  EXPECT_EQ(thd->tensors[0].name, "input_ids");
  EXPECT_EQ(thd->tensors[0].fill, PadFill::kPaddingId);
  EXPECT_EQ(thd->tensors[0].tensor.bytes.data(), batch.input_ids.bytes.data());
  EXPECT_EQ(thd->tensors[1].name, "labels");
  EXPECT_EQ(thd->tensors[1].fill, PadFill::kIgnoreLabel);
  EXPECT_EQ(thd->tensors[2].name, "position_ids");
  EXPECT_EQ(thd->tensors[2].origin, Origin::kInput);
  EXPECT_EQ(thd->tensors[2].fill, PadFill::kContinue);
  EXPECT_THAT(thd->tensors[2].outer, ElementsAre(3));
  EXPECT_THAT(thd->tensors[2].inner, IsEmpty());
  EXPECT_EQ(thd->tensors[3].name, "padding_mask");
  EXPECT_EQ(thd->tensors[3].origin, Origin::kPaddingMask);
  EXPECT_EQ(thd->tensors[3].dtype, DType::kBool);
  EXPECT_EQ(thd->tensors[3].fill, PadFill::kOne);
  EXPECT_EQ(thd->tensors[4].name, "loss_mask");
  EXPECT_EQ(thd->tensors[4].fill, PadFill::kZero);
  EXPECT_EQ(thd->tensors[5].name, "vision");
  EXPECT_THAT(thd->tensors[5].outer, ElementsAre(2));
  EXPECT_THAT(thd->tensors[5].inner, ElementsAre(5));
}

TEST(ConvertToThdTest, PositionsAreGeneratedWhereTheBatchHasNone) {
  const auto thd = ConvertToThd(CountingBatch(2, 4), {});
  ASSERT_THAT(thd, IsOk());
  EXPECT_EQ(thd->tensors[2].name, "position_ids");
  EXPECT_EQ(thd->tensors[2].origin, Origin::kPositions);
  EXPECT_EQ(thd->tensors[2].dtype, DType::kInt64);
}

TEST(ConvertToThdTest, EmbeddingsKeepTheirDTypeAndFillWithZeros) {
  PackedBatch batch = CountingBatch(1, 2);
  batch.input_ids = Tensor::FromVector<float>({1, 2, 1}, {0.5f, 1.5f});
  const auto thd = ConvertToThd(batch, {});
  ASSERT_THAT(thd, IsOk());
  EXPECT_EQ(thd->tensors[0].dtype, DType::kFloat32);
  EXPECT_EQ(thd->tensors[0].fill, PadFill::kZero);
  EXPECT_THAT(thd->tensors[0].inner, ElementsAre(1));
}

TEST(ConvertToThdTest, AutoPadIsDescribedAndNotCarriedOut) {
  PackedBatch batch = CountingBatch(2, 7);
  batch.seq_lens = Ragged({{3, 4}, {7}});
  const auto thd = ConvertToThd(
      batch, {.num_chunks = 2,
              .auto_pad = true,
              .pad_rule = {.scope = PadRule::Scope::kSlot, .multiple = 4}});
  ASSERT_THAT(thd, IsOk());
  const ThdChunk& first = thd->chunks[0];
  EXPECT_THAT(first.source, ElementsAre(3, 4));
  EXPECT_THAT(first.lengths.padded, ElementsAre(4, 4));
  EXPECT_EQ(first.source_tokens, 7);
  EXPECT_EQ(first.total_tokens, 8);
  const ThdChunk& second = thd->chunks[1];
  EXPECT_EQ(second.source_begin, 7);
  EXPECT_THAT(second.source, ElementsAre(7));
  EXPECT_EQ(second.max_seqlen, 7);
  EXPECT_EQ(second.max_seqlen_padded, 8);
}

TEST(ConvertToThdTest, RefusesWhatIsNoBatch) {
  PackedBatch batch = CountingBatch(1, 8);
  batch.seq_lens = Ragged({{3, 4}});
  EXPECT_THAT(ConvertToThd(batch, {}), HasReason(kLengthsInconsistent));
}

}  // namespace
}  // namespace cpfeed

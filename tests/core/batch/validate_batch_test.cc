#include "core/batch/validate_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
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
using ::cpfeed::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor Mask(Shape shape, std::vector<uint8_t> values) {
  return Tensor{.dtype = DType::kBool,
                .shape = std::move(shape),
                .bytes = Buffer::FromVector(std::move(values))};
}

TEST(ValidateBatchTest, SequencesAreReadRowAfterRowWithoutSentinels) {
  // a a a . b b b b | c c c c c c c .
  PackedBatch batch = CountingBatch(2, 8);
  batch.seq_lens = Ragged({{3, 4}, {7, -1000}});
  batch.seq_lens_padded = Ragged({{4, 4}, {8, -1000}});
  const auto description = ValidateBatch(batch, {});
  ASSERT_THAT(description, IsOk());
  EXPECT_EQ(description->shape.num_rows, 2);
  EXPECT_EQ(description->shape.row_width, 8);
  EXPECT_THAT(description->lengths.real, ElementsAre(3, 4, 7));
  EXPECT_THAT(description->lengths.padded, ElementsAre(4, 4, 8));
  EXPECT_THAT(description->lengths.row_splits, ElementsAre(0, 2, 3));
  EXPECT_THAT(description->source, ElementsAre(4, 4, 8));
}

TEST(ValidateBatchTest, SlotsAreRealLengthsWherePaddedOnesAreAbsent) {
  PackedBatch batch = CountingBatch(1, 8);
  batch.seq_lens = Ragged({{3, 5}});
  const auto description = ValidateBatch(batch, {});
  ASSERT_THAT(description, IsOk());
  EXPECT_THAT(description->lengths.padded, ElementsAre(3, 5));
}

TEST(ValidateBatchTest, ZeroLengthSequencesAreLegal) {
  PackedBatch batch = CountingBatch(1, 8);
  batch.seq_lens = Ragged({{0, 3, 0}});
  batch.seq_lens_padded = Ragged({{0, 4, 4}});
  const auto description = ValidateBatch(batch, {});
  ASSERT_THAT(description, IsOk());
  EXPECT_THAT(description->lengths.real, ElementsAre(0, 3, 0));
}

TEST(ValidateBatchTest, SentinelIsConfigurable) {
  PackedBatch batch = CountingBatch(1, 4);
  batch.seq_lens = Ragged({{4, -1, -1}});
  const auto description = ValidateBatch(batch, {.seq_lens_padding_value = -1});
  ASSERT_THAT(description, IsOk());
  EXPECT_THAT(description->lengths.real, ElementsAre(4));
}

TEST(ValidateBatchTest, RowIsOneSequenceWithoutLengths) {
  const auto description = ValidateBatch(CountingBatch(2, 3), {});
  ASSERT_THAT(description, IsOk());
  EXPECT_THAT(description->lengths.real, ElementsAre(3, 3));
  EXPECT_THAT(description->lengths.padded, ElementsAre(3, 3));
  EXPECT_THAT(description->lengths.row_splits, ElementsAre(0, 1, 2));
}

TEST(ValidateBatchTest, LeadingOnesOfAttentionMaskAreTheRealLength) {
  PackedBatch batch = CountingBatch(3, 4);
  batch.attention_mask = Mask({3, 4}, {1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0});
  const auto description = ValidateBatch(batch, {});
  ASSERT_THAT(description, IsOk());
  EXPECT_THAT(description->lengths.real, ElementsAre(2, 4, 0));
  EXPECT_THAT(description->lengths.padded, ElementsAre(4, 4, 4));
}

TEST(ValidateBatchTest, LeadingZerosOfPaddingMaskAreTheRealLength) {
  PackedBatch batch = CountingBatch(2, 4);
  batch.padding_mask = Tensor::FromVector<int64_t>({2, 4}, {0, 0, 0, 1,  //
                                                            0, 0, 0, 0});
  const auto description = ValidateBatch(batch, {});
  ASSERT_THAT(description, IsOk());
  EXPECT_THAT(description->lengths.real, ElementsAre(3, 4));
}

TEST(ValidateBatchTest, AttentionMaskIsNotReadBesideLengths) {
  PackedBatch batch = CountingBatch(1, 4);
  batch.seq_lens = Ragged({{4}});
  batch.attention_mask = Mask({1, 4}, {0, 7, 0, 1});
  const auto description = ValidateBatch(batch, {});
  ASSERT_THAT(description, IsOk());
  EXPECT_THAT(description->lengths.real, ElementsAre(4));
}

TEST(ValidateBatchTest, DenseMaskThatIsCausalInEachSequenceIsAccepted) {
  // Slots of 2 (both real) and 2 (one real); the row of the padding position
  // may hold anything.
  PackedBatch batch = CountingBatch(1, 4);
  batch.seq_lens = Ragged({{2, 1}});
  batch.seq_lens_padded = Ragged({{2, 2}});
  batch.attention_mask = Mask({1, 4, 4}, {1, 0, 0, 0,  //
                                          1, 1, 0, 0,  //
                                          0, 0, 1, 0,  //
                                          1, 0, 1, 1});
  EXPECT_THAT(ValidateBatch(batch, {}), IsOk());
  batch.attention_mask.shape = {1, 1, 4, 4};
  EXPECT_THAT(ValidateBatch(batch, {}), IsOk());
}

TEST(ValidateBatchTest, PaddingMaskThatEqualsTheLayoutIsAccepted) {
  PackedBatch batch = CountingBatch(1, 6);
  batch.seq_lens = Ragged({{2, 1}});
  batch.seq_lens_padded = Ragged({{3, 3}});
  batch.padding_mask = Mask({1, 6}, {0, 0, 1, 0, 1, 1});
  EXPECT_THAT(ValidateBatch(batch, {}), IsOk());
}

TEST(ValidateBatchTest, AutoFillExtendsTheLastSlotOfARow) {
  PackedBatch batch = CountingBatch(3, 8);
  batch.seq_lens = Ragged({{3, 2}, {-1000, -1000}, {8}});
  const auto description = ValidateBatch(batch, {.auto_fill = true});
  ASSERT_THAT(description, IsOk());
  EXPECT_THAT(description->lengths.real, ElementsAre(3, 2, 0, 8));
  EXPECT_THAT(description->lengths.padded, ElementsAre(3, 5, 8, 8));
  EXPECT_THAT(description->lengths.row_splits, ElementsAre(0, 2, 3, 4));
  EXPECT_THAT(description->source, ElementsAre(3, 5, 8, 8));
}

TEST(ValidateBatchTest, AutoPadComesAfterAutoFill) {
  PackedBatch batch = CountingBatch(1, 9);
  batch.seq_lens = Ragged({{3, 0, 4}});
  const auto description = ValidateBatch(
      batch, {.auto_fill = true,
              .auto_pad = true,
              .pad_rule = {.scope = PadRule::Scope::kSlot, .multiple = 4}});
  ASSERT_THAT(description, IsOk());
  EXPECT_THAT(description->lengths.real, ElementsAre(3, 0, 4));
  EXPECT_THAT(description->source, ElementsAre(3, 0, 6));
  EXPECT_THAT(description->lengths.padded, ElementsAre(4, 0, 8));
}

struct BadBatch {
  std::string name;
  std::function<void(PackedBatch&, BatchOptions&)> spoil;
  std::string reason;
  std::vector<std::string> message_parts;
};

class ValidateBatchErrorTest : public ::testing::TestWithParam<BadBatch> {};

// Spoils a good batch: two rows of 8, slots {4, 4 | 8}, real {3, 4 | 6}.
TEST_P(ValidateBatchErrorTest, IsRefusedWithItsNumbers) {
  PackedBatch batch = CountingBatch(2, 8);
  batch.seq_lens = Ragged({{3, 4}, {6}});
  batch.seq_lens_padded = Ragged({{4, 4}, {8}});
  BatchOptions options;
  ASSERT_THAT(ValidateBatch(batch, options), IsOk());
  GetParam().spoil(batch, options);
  const auto description = ValidateBatch(batch, options);
  EXPECT_THAT(description, HasReason(GetParam().reason));
  for (const std::string& part : GetParam().message_parts) {
    EXPECT_THAT(description,
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(part)));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Lengths, ValidateBatchErrorTest,
    ::testing::ValuesIn(std::vector<BadBatch>{
        {"RealAbovePadded",
         [](PackedBatch& b, BatchOptions&) {
           b.seq_lens = Ragged({{3, 5}, {6}});
         },
         kLengthsInconsistent,
         {"row 0: sequence 1: real length is 5; must be at most the padded "
          "length 4"}},
        {"CountsDiffer",
         [](PackedBatch& b, BatchOptions&) {
           b.seq_lens = Ragged({{3, 4}, {6, 1}});
         },
         kLengthsInconsistent,
         {"row 1: seq_lens has 2 sequences and seq_lens_padded has 1"}},
        {"CountsDifferBySentinel",
         [](PackedBatch& b, BatchOptions&) {
           b.seq_lens_padded = Ragged({{8, -1000}, {8}});
         },
         kLengthsInconsistent,
         {"row 0: seq_lens has 2 sequences and seq_lens_padded has 1"}},
        {"NegativeReal",
         [](PackedBatch& b, BatchOptions&) {
           b.seq_lens = Ragged({{3, 4}, {-999}});
         },
         kLengthsInconsistent,
         {"row 1: sequence 0: seq_lens is -999; must be at least 0, or the "
          "padding value -1000"}},
        {"NegativePadded",
         [](PackedBatch& b, BatchOptions&) {
           b.seq_lens_padded = Ragged({{4, 4}, {-8}});
         },
         kLengthsInconsistent,
         {"row 1: sequence 0: seq_lens_padded is -8"}},
        {"SentinelBeforeReal",
         [](PackedBatch& b, BatchOptions&) {
           b.seq_lens = Ragged({{-1000, 4}, {6}});
         },
         kLengthsInconsistent,
         {"row 0: sequence 1: seq_lens is 4 behind the padding value -1000 "
          "at 0"}},
        {"RowSumBelowWidth",
         [](PackedBatch& b, BatchOptions&) {
           b.seq_lens_padded = Ragged({{4, 4}, {7}});
         },
         kLengthsInconsistent,
         {"row 1: padded lengths sum to 7; must be the row width 8",
          "auto_fill"}},
        {"RowSumAboveWidth",
         [](PackedBatch& b, BatchOptions& o) {
           b.seq_lens_padded = Ragged({{4, 5}, {8}});
           o.auto_fill = true;
         },
         kLengthsInconsistent,
         {"row 0: padded lengths sum to 9; must be the row width 8"}},
        {"RowSumOverflows",
         [](PackedBatch& b, BatchOptions& o) {
           b.seq_lens_padded = Ragged({{INT64_MAX, INT64_MAX}, {8}});
           o.auto_fill = true;
         },
         kLengthsInconsistent,
         {"row 0: padded lengths sum to 9223372036854775807"}},
        {"NoSequenceInARow",
         [](PackedBatch& b, BatchOptions&) {
           b.seq_lens = Ragged({{3, 4}, {}});
           b.seq_lens_padded = Ragged({{4, 4}, {}});
         },
         kLengthsInconsistent,
         {"row 1: padded lengths sum to 0; must be the row width 8"}},
        {"TooFewRows",
         [](PackedBatch& b, BatchOptions&) {
           b.seq_lens = Ragged({{3, 4}});
         },
         kLengthsInconsistent,
         {"seq_lens has 1 rows; must have 2"}},
        {"NoRows",
         [](PackedBatch& b, BatchOptions&) { b.seq_lens = RaggedLengths(); },
         kLengthsInconsistent,
         {"seq_lens has 0 rows; must have 2"}},
        {"PaddedWithoutReal",
         [](PackedBatch& b, BatchOptions&) { b.seq_lens.reset(); },
         kLengthsInconsistent,
         {"seq_lens_padded is given and seq_lens is not"}},
        {"SplitsDescend",
         [](PackedBatch& b, BatchOptions&) {
           b.seq_lens->row_splits = {0, 4, 3};
         },
         kBatchMalformed,
         {"row splits of seq_lens", "values, 3"}},
        {"SplitsBeyondValues",
         [](PackedBatch& b, BatchOptions&) {
           b.seq_lens_padded->row_splits = {0, 2, 9};
         },
         kBatchMalformed,
         {"row splits of seq_lens_padded", "values, 3"}},
    }),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Options, ValidateBatchErrorTest,
    ::testing::ValuesIn(std::vector<BadBatch>{
        {"NoChunks",
         [](PackedBatch&, BatchOptions& o) { o.num_chunks = 0; },
         kBadOption,
         {"num_chunks is 0; must be at least 1"}},
        {"ChunksDoNotDivideRows",
         [](PackedBatch& b, BatchOptions& o) {
           b = CountingBatch(5, 2);
           o.num_chunks = 2;
         },
         kBadOption,
         {"num_chunks is 2; must divide the number of rows 5"}},
        {"MoreChunksThanRows",
         [](PackedBatch&, BatchOptions& o) { o.num_chunks = 4; },
         kBadOption,
         {"num_chunks is 4; must not exceed the number of rows 2"}},
        {"SentinelThatCouldBeALength",
         [](PackedBatch&, BatchOptions& o) { o.seq_lens_padding_value = 0; },
         kBadOption,
         {"seq_lens_padding_value is 0; must be negative"}},
        {"PadMultipleZero",
         [](PackedBatch&, BatchOptions& o) {
           o.auto_pad = true;
           o.pad_rule = {.scope = PadRule::Scope::kSlot, .multiple = 0};
         },
         kBadOption,
         {"pad_rule.multiple is 0; must be at least 1"}},
        {"PadIdDoesNotFit",
         [](PackedBatch& b, BatchOptions& o) {
           b.input_ids =
               Tensor::FromVector<int32_t>({2, 8}, std::vector<int32_t>(16, 0));
           o.auto_pad = true;
           o.padding_token_id = int64_t{1} << 31;
         },
         kBadOption,
         {"padding_token_id is 2147483648; must fit int32"}},
        {"PadsToTooManyTokens",
         [](PackedBatch&, BatchOptions& o) {
           o.auto_pad = true;
           o.pad_rule = {.scope = PadRule::Scope::kSlot,
                         .multiple = int64_t{1} << 30};
         },
         kBatchTooLarge,
         {"chunk 0", "1073741824", "2147483648"}},
        {"PadMultipleTooLarge",
         [](PackedBatch&, BatchOptions& o) {
           o.auto_pad = true;
           o.pad_rule = {.scope = PadRule::Scope::kSlot, .multiple = INT64_MAX};
         },
         kBatchTooLarge,
         {"multiples of 9223372036854775807"}},
    }),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Masks, ValidateBatchErrorTest,
    ::testing::ValuesIn(std::vector<BadBatch>{
        {"OneAfterZeroWithoutLengths",
         [](PackedBatch& b, BatchOptions&) {
           b = CountingBatch(2, 3);
           b.attention_mask = Mask({2, 3}, {1, 1, 0, 1, 0, 1});
         },
         kMaskNotSupported,
         {"row 1: attention_mask is 1 at position 2, a token behind padding",
          "must be 0 from position 1 on"}},
        {"MaskValueIsNoBit",
         [](PackedBatch& b, BatchOptions&) {
           b = CountingBatch(1, 3);
           b.attention_mask = Tensor::FromVector<int64_t>({1, 3}, {1, 2, 0});
         },
         kMaskNotSupported,
         {"row 0: attention_mask is 2 at position 1; must be 0 or 1"}},
        {"FalseAfterTrueWithoutLengths",
         [](PackedBatch& b, BatchOptions&) {
           b = CountingBatch(1, 3);
           b.padding_mask = Mask({1, 3}, {0, 1, 0});
         },
         kMaskNotSupported,
         {"row 0: padding_mask is 0 at position 2, a token behind padding",
          "must be 1 from position 1 on"}},
        {"MasksDisagree",
         [](PackedBatch& b, BatchOptions&) {
           b = CountingBatch(1, 3);
           b.attention_mask = Mask({1, 3}, {1, 1, 0});
           b.padding_mask = Mask({1, 3}, {0, 1, 1});
         },
         kLengthsInconsistent,
         {"row 0: attention_mask has 2 tokens and padding_mask has 1"}},
        {"PaddingMaskDiffersInTheReal",
         [](PackedBatch& b, BatchOptions&) {
           b.padding_mask =
               Mask({2, 8}, {0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1});
         },
         kLengthsInconsistent,
         {"row 0, sequence 1: padding_mask is 1 at position 5; must be 0",
          "begins at 4 and has 4 tokens"}},
        {"PaddingMaskDiffersInThePadding",
         [](PackedBatch& b, BatchOptions&) {
           b.padding_mask =
               Mask({2, 8}, {0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0});
         },
         kLengthsInconsistent,
         {"row 1, sequence 0: padding_mask is 0 at position 7; must be 1"}},
        {"DenseMaskSeesAnotherSequence",
         [](PackedBatch& b, BatchOptions&) {
           b = CountingBatch(1, 3);
           b.seq_lens = Ragged({{1, 2}});
           b.attention_mask = Mask({1, 3, 3}, {1, 0, 0,  //
                                               1, 1, 0,  //
                                               0, 1, 1});
         },
         kMaskNotSupported,
         {"row 0, sequence 1: attention_mask is 1 at query 1, key 0; must be "
          "0"}},
        {"DenseMaskIsFull",
         [](PackedBatch& b, BatchOptions&) {
           b = CountingBatch(1, 2);
           b.attention_mask = Mask({1, 1, 2, 2}, {1, 1, 1, 1});
         },
         kMaskNotSupported,
         {"row 0, sequence 0: attention_mask is 1 at query 0, key 1"}},
        {"DenseMaskIsWindow",
         [](PackedBatch& b, BatchOptions&) {
           b = CountingBatch(1, 2);
           b.attention_mask = Mask({1, 2, 2}, {1, 0, 0, 1});
         },
         kMaskNotSupported,
         {"attention_mask is 0 at query 1, key 0; must be 1"}},
        {"FloatMask",
         [](PackedBatch& b, BatchOptions&) {
           b.attention_mask =
               Tensor::FromVector<float>({2, 8}, std::vector<float>(16, 1.0f));
         },
         kMaskNotSupported,
         {"attention_mask has dtype float32; must be bool or an integer"}},
        {"FloatPaddingMask",
         [](PackedBatch& b, BatchOptions&) {
           b.padding_mask =
               Tensor::FromVector<float>({2, 8}, std::vector<float>(16, 1.0f));
         },
         kMaskNotSupported,
         {"padding_mask has dtype float32"}},
    }),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace cpfeed

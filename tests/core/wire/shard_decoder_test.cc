// Steps that are wrong.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/batch/packed_batch.h"
#include "core/plan/layout_spec.h"
#include "core/shard/shard.h"
#include "core/tensor/tensor.h"
#include "core/wire/shard_codec.h"
#include "tests/core/wire/encoded_steps.h"
#include "tests/testing/packed_batches.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::CountingBatch;
using ::cpfeed::testing::CountingTensor;
using ::cpfeed::testing::CutOf;
using ::cpfeed::testing::EncodedTwoChunks;
using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::Ragged;
using ::cpfeed::testing::Replaced;
using ::cpfeed::testing::StatusIs;
using ::cpfeed::testing::StringOf;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Tensor Int32s(std::vector<int32_t> values) {
  const auto count = static_cast<int64_t>(values.size());
  return Tensor::FromVector<int32_t>({count}, std::move(values));
}

Tensor Triples(std::vector<int32_t> values) {
  const auto count = static_cast<int64_t>(values.size()) / 3;
  return Tensor::FromVector<int32_t>({count, 3}, std::move(values));
}

struct BadTensor {
  std::string name;
  std::string tensor;
  Tensor value;
  std::string message;
};

class BadShardTensorTest : public ::testing::TestWithParam<BadTensor> {};

TEST_P(BadShardTensorTest, IsRefused) {
  const EncodedStep step =
      Replaced(EncodedTwoChunks(), GetParam().tensor, GetParam().value);
  const auto decoded = DecodeStep(step.header, 2, step.payload);
  EXPECT_FALSE(decoded.ok());
  EXPECT_THAT(std::string(decoded.status().message()),
              AllOf(HasSubstr("chunk 0: "), HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadShardTensorTest,
    ::testing::ValuesIn(std::vector<BadTensor>{
        {"NoLengths", "cu_seqlens", Tensor(), "shard has no cu_seqlens"},
        {"NoSlots", "cu_seqlens_padded", Tensor(),
         "shard has no cu_seqlens_padded"},
        {"NoRows", "sequences_per_row", Tensor(),
         "shard has no sequences_per_row"},
        {"NoSegments", "segments", Tensor(), "shard has no segments"},
        {"NoLocalLengths", "local_cu_seqlens", Tensor(),
         "shard has no local_cu_seqlens"},
        {"WideLengths", "cu_seqlens",
         Tensor::FromVector<int64_t>({3}, {0, 3, 7}),
         "cu_seqlens has shape [3] of int64; must be a list of int32"},
        // Its low half would be right.
        {"LengthThatWraps", "cu_seqlens_padded",
         Tensor::FromVector<int64_t>({3}, {0, (int64_t{1} << 32) + 4, 8}),
         "must be a list of int32"},
        {"FloatLengths", "cu_seqlens",
         Tensor::FromVector<float>({3}, {0, 3, 7}), "must be a list of int32"},
        {"ScalarLengths", "cu_seqlens", Tensor::FromVector<int32_t>({}, {0}),
         "cu_seqlens has shape []"},
        {"LengthsOfTwoAxes", "cu_seqlens",
         Tensor::FromVector<int32_t>({3, 1}, {0, 3, 7}), "shape [3, 1]"},
        {"EmptyLengths", "cu_seqlens", Int32s({}), "must start with 0"},
        {"LengthsFromOne", "cu_seqlens", Int32s({1, 3, 7}),
         "must start with 0"},
        {"FallingLengths", "cu_seqlens", Int32s({0, 5, 4}), "not decrease"},
        {"NegativeSlots", "cu_seqlens_padded", Int32s({0, -4, 8}),
         "not decrease"},
        {"RealAboveSlot", "cu_seqlens", Int32s({0, 5, 9}), "real length is 5"},
        {"FewerSlots", "cu_seqlens_padded", Int32s({0, 8}),
         "2 real and 1 padded lengths"},
        {"OtherTotal", "cu_seqlens_padded", Int32s({0, 4, 12}),
         "total_tokens is 8; must be 12"},
        {"OtherWidth", "cu_seqlens", Int32s({0, 3, 6}),
         "max_seqlen is 4; must be 3"},
        {"NegativeRow", "sequences_per_row", Int32s({3, -1}), "row_splits"},
        {"OtherRows", "sequences_per_row", Int32s({1}), "row_splits"},
        {"OtherLengths", "cu_seqlens", Int32s({0, 4, 7}), "plan digest is"},
        {"SegmentsOfAnotherRank", "segments",
         Triples({0, 0, 1, 0, 3, 1, 1, 0, 1, 1, 3, 1}),
         "segments are not those of the plan"},
        {"SegmentOutOfRange", "segments", Triples({7, 0, 2, 1, 1, 2}),
         "segments are not those of the plan"},
        {"FewerSegments", "segments", Triples({0, 1, 2}),
         "segments are not those of the plan"},
        {"FlatSegments", "segments", Int32s({0, 1, 2, 1, 1, 2}),
         "must be a list of int32 triples"},
        {"OtherLocalLengths", "local_cu_seqlens", Int32s({0, 1, 4}),
         "local_cu_seqlens are not those of the plan"},
        {"OtherLocalSlots", "local_cu_seqlens_padded", Int32s({0, 2}),
         "local_cu_seqlens are not those of the plan"},
        {"TokensOfAnotherCount", "input_ids", CountingTensor({5}),
         "input_ids has shape [5]; must have the 4 local rows on axis 0"},
        {"TokensOnAnotherAxis", "position_ids", CountingTensor({4, 3}),
         "position_ids has shape [4, 3]; must have the 4 local rows on axis 1"},
        {"ScalarTokens", "input_ids", CountingTensor({}),
         "input_ids has shape []; must have the 4 local rows"},
    }),
    [](const auto& info) { return info.param.name; });

TEST(BadSourceLengthsTest, AreRefused) {
  PackedBatch batch = CountingBatch(1, 8);
  batch.seq_lens = Ragged({{3, 5}});  // Slots of 4 and 8.
  const EncodedStep step =
      EncodeStep(CutOf(batch, {.auto_pad = true},
                       {.layout = Layout::kHeadTailPerSequence}, 2)[0],
                 0);
  const auto decode = [&](std::vector<int32_t> source) {
    const EncodedStep changed =
        Replaced(step, "source_lengths", Int32s(std::move(source)));
    return DecodeStep(changed.header, 2, changed.payload);
  };
  EXPECT_THAT(decode({3, 5}), IsOk());
  EXPECT_THAT(decode({3, -5}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("sequence 1: source length is -5; must be 0 "
                                 "to its slot, 8")));
  EXPECT_THAT(decode({5, 5}), HasReason(kProtocolError));
  EXPECT_THAT(decode({3}), HasReason(kProtocolError));
}

struct BadStep {
  std::string name;
  std::function<void(EncodedStep&)> spoil;
  absl::StatusCode code;
  std::string reason;
  std::string message;
};

class BadStepTest : public ::testing::TestWithParam<BadStep> {};

TEST_P(BadStepTest, IsRefused) {
  EncodedStep step = EncodedTwoChunks();
  GetParam().spoil(step);
  const auto decoded = DecodeStep(step.header, 2, step.payload);
  EXPECT_THAT(decoded,
              StatusIs(GetParam().code, HasSubstr(GetParam().message)));
  EXPECT_THAT(decoded, HasReason(GetParam().reason));
}

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kDataLoss = absl::StatusCode::kDataLoss;

INSTANTIATE_TEST_SUITE_P(
    All, BadStepTest,
    ::testing::ValuesIn(std::vector<BadStep>{
        {"NegativeRank", [](auto& s) { s.header.set_cp_rank(-1); }, kInvalid,
         kProtocolError, "cp_rank is -1; must be below cp_size = 2"},
        {"RankOfALargerGroup", [](auto& s) { s.header.set_cp_rank(2); },
         kInvalid, kProtocolError, "cp_rank is 2"},
        {"AnotherRank", [](auto& s) { s.header.set_cp_rank(0); }, kInvalid,
         kProtocolError, "segments are not those of the plan"},
        {"NoChunks", [](auto& s) { s.header.clear_chunks(); }, kInvalid,
         kProtocolError, "step has 0 chunks; must have 1 to 64"},
        {"ManyChunks",
         [](auto& s) {
           while (s.header.chunks_size() < 65) s.header.add_chunks();
         },
         kInvalid, kProtocolError, "step has 65 chunks"},
        {"ShortPayload",
         [](auto& s) { s.payload = s.payload.Slice(0, s.payload.size() - 1); },
         kInvalid, kProtocolError, "chunk 1 has "},
        {"LongPayload",
         [](auto& s) { s.payload.Append(s.payload.Slice(0, 1)); }, kInvalid,
         kProtocolError, "payload size is "},
        {"ChunkWithoutTensors",
         [](auto& s) { s.header.mutable_chunks(0)->clear_tensors(); }, kInvalid,
         kProtocolError, "chunk 0: shard has no cu_seqlens"},
        {"OtherDigest",
         [](auto& s) {
           auto& chunk = *s.header.mutable_chunks(1);
           chunk.set_plan_digest(chunk.plan_digest() + 1);
         },
         kDataLoss, kChecksumMismatch, "chunk 1: plan digest is"},
        {"OtherLayout",
         [](auto& s) {
           s.header.mutable_chunks(0)->mutable_sharding()->set_layout(
               v1::LAYOUT_CONTIGUOUS);
         },
         kDataLoss, kChecksumMismatch, "chunk 0: plan digest is"},
        {"NoLayout",
         [](auto& s) {
           s.header.mutable_chunks(0)->mutable_sharding()->set_layout(
               static_cast<v1::Layout>(99));
         },
         kInvalid, kBadOption, "chunk 0: sharding.layout is 99"},
        {"ParameterOutOfRange",
         [](auto& s) {
           auto& sharding = *s.header.mutable_chunks(0)->mutable_sharding();
           sharding.set_layout(v1::LAYOUT_STRIPED);
           sharding.set_stripe_width(INT64_MAX);
         },
         kInvalid, kBadOption, "chunk 0: "},
        {"ChangedBytes",
         [](auto& s) {
           std::string bytes = StringOf(s.payload);
           bytes.back() ^= 1;
           s.payload = Buffer::CopyOf(bytes.data(), s.payload.size());
         },
         kDataLoss, kChecksumMismatch,
         "chunk 1: tensor padding_mask: checksum"},
        {"OtherCount",
         [](auto& s) { s.header.mutable_chunks(0)->set_num_tokens(5); },
         kInvalid, kProtocolError, "num_tokens is 5; must be 4"},
        {"NegativeCount",
         [](auto& s) { s.header.mutable_chunks(0)->set_num_tokens(-4); },
         kInvalid, kProtocolError, "num_tokens is -4"},
        {"OtherTotal",
         [](auto& s) { s.header.mutable_chunks(0)->set_total_tokens(9); },
         kInvalid, kProtocolError, "total_tokens is 9; must be 8"},
        {"OtherMaximum",
         [](auto& s) { s.header.mutable_chunks(0)->set_max_seqlen_padded(9); },
         kInvalid, kProtocolError, "max_seqlen_padded is 9; must be 4"},
        {"SizesThatOverflow",
         [](auto& s) {
           auto& spec = *s.header.mutable_chunks(0)->mutable_tensors(6);
           spec.set_shape(0, int64_t{1} << 62);
         },
         kInvalid, kShapeMismatch, "2^63 bytes"},
        {"SizeThatIsAClaim",
         [](auto& s) {
           auto& spec = *s.header.mutable_chunks(0)->mutable_tensors(6);
           spec.set_shape(0, int64_t{1} << 40);
         },
         kInvalid, kProtocolError, "of the payload are left"},
        {"TensorTwice",
         [](auto& s) {
           auto& chunk = *s.header.mutable_chunks(0);
           chunk.mutable_tensors(7)->set_name("input_ids");
         },
         kInvalid, kBatchMalformed, "tensor input_ids is given twice"},
    }),
    [](const auto& info) { return info.param.name; });

TEST(BadStepTest, GroupOfAnotherSizeHasAnotherPlan) {
  const EncodedStep step = EncodedTwoChunks();
  EXPECT_THAT(DecodeStep(step.header, 4, step.payload), Not(IsOk()));
  EXPECT_THAT(DecodeStep(step.header, 0, step.payload),
              HasReason(kProtocolError));
  EXPECT_THAT(DecodeStep(step.header, 1 << 20, step.payload),
              HasReason(kBadOption));
}

// A few bytes that claim two billion tokens in stripes of one: a plan would
// take 24 GiB.
TEST(BadStepTest, ClaimsOfManyTokensArePlannedOnlyWithTheirBytes) {
  constexpr int32_t kClaim = INT32_MAX - 1;
  for (const v1::Layout layout : {v1::LAYOUT_STRIPED, v1::LAYOUT_CHUNK_GREEDY,
                                  v1::LAYOUT_PTRR, v1::LAYOUT_BALANCED}) {
    EncodedStep step = EncodeStep(
        CutOf(CountingBatch(1, 512), {}, {.layout = Layout::kContiguous}, 2)[0],
        0);
    for (const char* name : {"cu_seqlens", "cu_seqlens_padded"}) {
      step = Replaced(step, name, Int32s({0, kClaim}));
    }
    v1::ShardHeader& chunk = *step.header.mutable_chunks(0);
    chunk.set_total_tokens(kClaim);
    chunk.set_max_seqlen(kClaim);
    chunk.set_max_seqlen_padded(kClaim);
    chunk.mutable_sharding()->set_layout(layout);
    const auto decoded = DecodeStep(step.header, 2, step.payload);
    EXPECT_THAT(decoded, StatusIs(absl::StatusCode::kInvalidArgument,
                                  AllOf(HasSubstr("segments may be"),
                                        HasSubstr("must be at most 1048576"))));
    EXPECT_THAT(decoded, HasReason(kProtocolError));
  }
}

// Rows that round a rank up to token_multiple have no bytes where no tensor was
// asked for; their index would have 8 GiB.
TEST(BadStepTest, ClaimsOfManyRowsAreNotBelieved) {
  const EncodedStep step = SelectTensors(
      EncodeStep(
          CutOf(CountingBatch(1, 8), {}, {.layout = Layout::kBalanced}, 2)[0],
          0),
      {"none"});
  EXPECT_THAT(DecodeStep(step.header, 2, step.payload), IsOk());
  v1::StepHeader header = step.header;
  v1::ShardHeader& chunk = *header.mutable_chunks(0);
  chunk.mutable_sharding()->set_token_multiple(INT32_MAX);
  chunk.set_num_tokens(INT32_MAX);
  EXPECT_THAT(DecodeStep(header, 2, step.payload),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("num_tokens is 2147483647"),
                             HasSubstr("must be at most 1048576"))));
}

TEST(BadStepTest, PaddingThatIsNotDealtIsNoClaim) {
  constexpr int64_t kWidth = 1 << 21;
  PackedBatch batch = CountingBatch(1, kWidth);
  batch.seq_lens = Ragged({{3}});
  batch.seq_lens_padded = Ragged({{kWidth}});
  const EncodedStep step =
      EncodeStep(CutOf(batch, {}, {.layout = Layout::kBalanced}, 2)[0], 0);
  EXPECT_THAT(DecodeStep(step.header, 2, step.payload), IsOk());
}

// Whatever is changed, the answer is an error or the step as it was.
TEST(ShardCodecRobustnessTest, ChangedStepsAreHarmless) {
  std::mt19937_64 random(9);
  const EncodedStep step = EncodedTwoChunks();
  std::string header_bytes = step.header.SerializeAsString();
  std::string payload_bytes = StringOf(step.payload);
  int parsed = 0;
  for (int round = 0; round < 50'000; ++round) {
    std::string header_copy = header_bytes;
    std::string payload_copy = payload_bytes;
    for (uint64_t changes = random() % 3 + 1; changes > 0; --changes) {
      std::string& bytes = random() % 4 == 0 ? payload_copy : header_copy;
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    v1::StepHeader header;
    if (!header.ParseFromString(header_copy)) continue;
    if (random() % 2 == 0) {
      for (v1::ShardHeader& chunk : *header.mutable_chunks()) {
        for (v1::TensorSpec& spec : *chunk.mutable_tensors()) {
          spec.clear_checksum();
        }
      }
    }
    ++parsed;
    const auto decoded = DecodeStep(
        header, 2, Buffer::CopyOf(payload_copy.data(), step.payload.size()));
    if (!decoded.ok()) continue;
    for (const Shard& shard : decoded->chunks) {
      ASSERT_EQ(SourceIndex(shard).size(), shard.num_tokens);
      ASSERT_EQ(shard.num_tokens, 4);
    }
  }
  EXPECT_GT(parsed, 1000);
}

}  // namespace
}  // namespace cpfeed

#include "core/wire/shard_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/batch/packed_batch.h"
#include "core/batch/validate_batch.h"
#include "core/plan/layout.h"
#include "core/plan/layout_spec.h"
#include "core/plan/shard_plan.h"
#include "core/shard/shard.h"
#include "core/tensor/tensor.h"
#include "core/wire/frame.h"
#include "tests/core/wire/encoded_steps.h"
#include "tests/testing/packed_batches.h"
#include "tests/testing/random_batches.h"
#include "tests/testing/random_cut.h"
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
using ::cpfeed::testing::RandomBatch;
using ::cpfeed::testing::RandomlyCut;
using ::cpfeed::testing::StatusIs;
using ::cpfeed::testing::StringOf;
using ::cpfeed::testing::TwoChunks;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

void ExpectSame(const Shard& actual, const Shard& expected) {
  EXPECT_EQ(actual.cp_rank, expected.cp_rank);
  EXPECT_EQ(actual.num_tokens, expected.num_tokens);
  EXPECT_EQ(actual.num_label_tokens, expected.num_label_tokens);
  EXPECT_EQ(actual.local.cu_seqlens, expected.local.cu_seqlens);
  EXPECT_EQ(actual.local.cu_seqlens_padded, expected.local.cu_seqlens_padded);
  EXPECT_EQ(SourceIndex(actual), SourceIndex(expected));
  EXPECT_EQ(actual.plan->digest, expected.plan->digest);
  EXPECT_EQ(actual.plan->cp_size, expected.plan->cp_size);
  EXPECT_EQ(actual.plan->spec.layout, expected.plan->spec.layout);
  EXPECT_EQ(LocalIndex(*actual.plan, actual.cp_rank),
            LocalIndex(*expected.plan, expected.cp_rank));
  const ThdChunk& chunk = *actual.chunk;
  EXPECT_EQ(chunk.lengths.real, expected.chunk->lengths.real);
  EXPECT_EQ(chunk.lengths.padded, expected.chunk->lengths.padded);
  EXPECT_EQ(chunk.lengths.row_splits, expected.chunk->lengths.row_splits);
  EXPECT_EQ(chunk.source, expected.chunk->source);
  EXPECT_EQ(chunk.source_tokens, expected.chunk->source_tokens);
  EXPECT_EQ(chunk.total_tokens, expected.chunk->total_tokens);
  EXPECT_EQ(chunk.cu_seqlens, expected.chunk->cu_seqlens);
  EXPECT_EQ(chunk.cu_seqlens_padded, expected.chunk->cu_seqlens_padded);
  EXPECT_EQ(chunk.max_seqlen, expected.chunk->max_seqlen);
  EXPECT_EQ(chunk.max_seqlen_padded, expected.chunk->max_seqlen_padded);
  ASSERT_EQ(actual.tensors.size(), expected.tensors.size());
  for (size_t i = 0; i < actual.tensors.size(); ++i) {
    const NamedTensor& named = expected.tensors[i];
    EXPECT_EQ(actual.tensors[i].name, named.name);
    EXPECT_EQ(actual.tensors[i].token_axis, named.token_axis);
    EXPECT_EQ(actual.tensors[i].tensor.dtype, named.tensor.dtype);
    EXPECT_EQ(actual.tensors[i].tensor.shape, named.tensor.shape);
    EXPECT_EQ(StringOf(actual.tensors[i].tensor.bytes),
              StringOf(named.tensor.bytes));
  }
}

using LayoutAndSize = std::tuple<Layout, int>;

class ShardCodecTest : public ::testing::TestWithParam<LayoutAndSize> {};

TEST_P(ShardCodecTest, DecodingUndoesEncoding) {
  const auto [layout, cp_size] = GetParam();
  std::mt19937_64 random(cp_size);
  for (int round = 0; round < 5; ++round) {
    const int64_t chunks = static_cast<int64_t>(random() % 3 + 1);
    const PackedBatch batch =
        RandomBatch({.num_rows = 2 * chunks, .fill = true}, random);
    const std::vector<StepShard> steps = CutOf(
        batch, {.num_chunks = chunks, .auto_fill = true, .auto_pad = true},
        {.layout = layout,
         .stripe_width = 2,
         .chunk_size = 8,
         .token_multiple = 3},
        cp_size);
    for (int rank = 0; rank < cp_size; ++rank) {
      const EncodedStep step = EncodeStep(steps[rank], rank);
      EXPECT_EQ(step.header.payload_bytes(), step.payload.size());
      EXPECT_THAT(CheckStepHeader(step.header), IsOk());
      const auto decoded = DecodeStep(step.header, cp_size,
                                      RandomlyCut(step.payload, 200, random));
      ASSERT_THAT(decoded, IsOk());
      EXPECT_EQ(decoded->num_label_tokens_global,
                steps[rank].num_label_tokens_global);
      ASSERT_EQ(decoded->chunks.size(), chunks);
      for (int64_t c = 0; c < chunks; ++c) {
        ExpectSame(decoded->chunks[c], steps[rank].chunks[c]);
      }
    }
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ShardCodecTest,
    ::testing::Combine(::testing::Values(Layout::kContiguous,
                                         Layout::kHeadTailPerRow,
                                         Layout::kHeadTailPerSequence,
                                         Layout::kStriped, Layout::kChunkGreedy,
                                         Layout::kPtrr, Layout::kBalanced),
                       ::testing::Values(1, 2, 3, 8)),
    [](const auto& info) {
      return absl::StrCat(LayoutName(std::get<0>(info.param)), "On",
                          std::get<1>(info.param));
    });

std::vector<std::string> Names(const v1::ShardHeader& header) {
  std::vector<std::string> names;
  for (const v1::TensorSpec& spec : header.tensors()) {
    names.push_back(spec.name());
  }
  return names;
}

TEST(EncodeStepTest, DescriptionComesBeforeTokens) {
  EXPECT_THAT(
      Names(EncodedTwoChunks().header.chunks(0)),
      ElementsAre("cu_seqlens", "cu_seqlens_padded", "sequences_per_row",
                  "segments", "local_cu_seqlens", "local_cu_seqlens_padded",
                  "input_ids", "labels", "position_ids", "padding_mask"));
}

TEST(EncodeStepTest, SourceLengthsTravelWhereRowsWereInserted) {
  PackedBatch batch = CountingBatch(1, 8);
  batch.seq_lens = Ragged({{3, 5}});
  const EncodedStep step =
      EncodeStep(CutOf(batch, {.auto_pad = true},
                       {.layout = Layout::kHeadTailPerSequence}, 2)[0],
                 0);
  EXPECT_THAT(Names(step.header.chunks(0)),
              ::testing::Contains("source_lengths"));
}

TEST(EncodeStepTest, TokenBytesAreShared) {
  const StepShard shard = TwoChunks()[1];
  const EncodedStep step = EncodeStep(shard, 1);
  const std::byte* const ids = shard.chunks[0].tensors[0].tensor.bytes.data();
  EXPECT_TRUE(std::any_of(
      step.payload.fragments().begin(), step.payload.fragments().end(),
      [&](const Buffer::Fragment& fragment) { return fragment.data == ids; }));
}

TEST(EncodeStepTest, NamesOfDescriptionsAreNotForExtraTensors) {
  for (const char* name :
       {"cu_seqlens", "cu_seqlens_padded", "sequences_per_row",
        "source_lengths", "segments", "local_cu_seqlens",
        "local_cu_seqlens_padded", "index"}) {
    EXPECT_EQ(IsShardDescription(name), name != std::string("index"));
    PackedBatch batch = CountingBatch(1, 8);
    batch.extras.push_back({name, batch.labels});
    EXPECT_THAT(ValidateBatch(batch, {}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr(absl::StrCat("\"", name, "\""))));
  }
  EXPECT_FALSE(IsShardDescription("input_ids"));
}

TEST(EncodeStepTest, LargestBatchCanBeRead) {
  // 64 tensors of a batch; the shard has generated ones and its description
  // besides.
  PackedBatch batch = CountingBatch(1, 8);
  batch.seq_lens = Ragged({{3, 5}});
  for (int i = 0; i < 60; ++i) {
    batch.extras.push_back({absl::StrCat("extra", i), batch.labels});
  }
  const std::vector<StepShard> steps = CutOf(
      batch, {.auto_pad = true}, {.layout = Layout::kHeadTailPerSequence}, 2);
  const EncodedStep step = SelectTensors(EncodeStep(steps[0], 0), {});
  EXPECT_EQ(step.header.chunks(0).tensors_size(), 71);
  EXPECT_THAT(DecodeStep(step.header, 2, step.payload), IsOk());
}

TEST(CheckStepHeaderTest, HeaderThatPassesFitsAFrame) {
  PackedBatch batch = CountingBatch(64, 2);
  for (int i = 0; i < 30; ++i) {
    batch.extras.push_back({absl::StrCat("extra", i), batch.labels});
    EncodedStep step = EncodeStep(
        CutOf(batch, {.num_chunks = 64}, {.layout = Layout::kContiguous}, 1)[0],
        0);
    const absl::Status status = CheckStepHeader(step.header);
    if (!status.ok()) {
      EXPECT_GT(i, 5);
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                                   AllOf(HasSubstr("64 chunks have"),
                                         HasSubstr("at most 65536"))));
      EXPECT_THAT(status, HasReason(kBatchTooLarge));
      return;
    }
    // The longest that a consumer can ask for.
    std::vector<std::string> names = Names(step.header.chunks(0));
    names.push_back("index");
    v1::StreamShardsResponse response;
    v1::StepHeader& header = *response.mutable_step();
    header = SelectTensors(step, names).header;
    header.set_step(INT64_MAX);
    header.set_sequence(INT64_MAX);
    header.set_data_epoch(INT64_MIN);
    header.set_payload_bytes(INT64_MAX);
    header.set_cursor_bytes(INT32_MAX);
    header.set_batch_id(std::string(256, 'i'));
    header.set_producer(std::string(63, 'p'));
    EXPECT_THAT(DecodeFrame(EncodeMessage(response, Buffer())), IsOk());
  }
  ADD_FAILURE() << "no header was too large";
}

// ---- SelectTensors ----

TEST(SelectTensorsTest, NoNamesMeanAll) {
  const EncodedStep step = EncodedTwoChunks();
  const EncodedStep selected = SelectTensors(step, {});
  EXPECT_EQ(selected.header.SerializeAsString(),
            step.header.SerializeAsString());
  EXPECT_EQ(StringOf(selected.payload), StringOf(step.payload));
}

TEST(SelectTensorsTest, DescriptionAlwaysComesAlong) {
  const EncodedStep step = EncodedTwoChunks();
  const EncodedStep selected = SelectTensors(step, {"labels"});
  EXPECT_EQ(selected.header.payload_bytes(), selected.payload.size());
  EXPECT_LT(selected.payload.size(), step.payload.size());
  for (const v1::ShardHeader& chunk : selected.header.chunks()) {
    EXPECT_THAT(Names(chunk),
                ElementsAre("cu_seqlens", "cu_seqlens_padded",
                            "sequences_per_row", "segments", "local_cu_seqlens",
                            "local_cu_seqlens_padded", "labels"));
  }
  const auto decoded = DecodeStep(selected.header, 2, selected.payload);
  ASSERT_THAT(decoded, IsOk());
  const std::vector<StepShard> steps = TwoChunks();
  for (size_t c = 0; c < 2; ++c) {
    EXPECT_EQ(StringOf(decoded->chunks[c].tensors[0].tensor.bytes),
              StringOf(steps[1].chunks[c].tensors[1].tensor.bytes));
  }
}

TEST(SelectTensorsTest, BytesAreShared) {
  const EncodedStep step = EncodedTwoChunks();
  const EncodedStep selected = SelectTensors(step, {"labels"});
  for (const Buffer::Fragment& part : selected.payload.fragments()) {
    EXPECT_TRUE(std::any_of(
        step.payload.fragments().begin(), step.payload.fragments().end(),
        [&](const Buffer::Fragment& whole) {
          return whole.data <= part.data &&
                 part.data + part.size <= whole.data + whole.size;
        }));
  }
}

TEST(SelectTensorsTest, IndexComesWhereItIsAskedFor) {
  const EncodedStep selected = SelectTensors(EncodedTwoChunks(), {"index"});
  const auto decoded = DecodeStep(selected.header, 2, selected.payload);
  ASSERT_THAT(decoded, IsOk());
  for (const Shard& shard : decoded->chunks) {
    ASSERT_EQ(shard.tensors.size(), 1);
    EXPECT_EQ(shard.tensors[0].name, "index");
    const auto values = shard.tensors[0].tensor.Values<int32_t>();
    EXPECT_EQ(std::vector<int32_t>(values.begin(), values.end()),
              LocalIndex(*shard.plan, 1));
  }
}

TEST(SelectTensorsTest, IndexIsNotGivenTwice) {
  const EncodedStep once = SelectTensors(EncodedTwoChunks(), {"index"});
  const EncodedStep twice = SelectTensors(once, {"index"});
  EXPECT_EQ(twice.header.SerializeAsString(), once.header.SerializeAsString());
}

TEST(SelectTensorsTest, UnknownNamesSelectNothing) {
  const EncodedStep selected = SelectTensors(EncodedTwoChunks(), {"nonsense"});
  EXPECT_THAT(Names(selected.header.chunks(0)),
              Not(::testing::Contains("input_ids")));
  EXPECT_THAT(DecodeStep(selected.header, 2, selected.payload), IsOk());
}

TEST(TokenRangeTest, CutsTheTokenAxisWhereverItIs) {
  const Tensor tensor = CountingTensor({2, 4, 3});
  const Tensor middle = TokenRange(tensor, 1, 1, 3);
  EXPECT_EQ(middle.shape, (Shape{2, 2, 3}));
  EXPECT_THAT(*middle.ToInt64(),
              ElementsAre(3, 4, 5, 6, 7, 8, 15, 16, 17, 18, 19, 20));
  EXPECT_EQ(middle.bytes.fragments()[0].data, tensor.bytes.data() + 3 * 8);
  EXPECT_THAT(*TokenRange(tensor, 0, 1, 2).ToInt64(),
              ElementsAre(12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23));
  EXPECT_EQ(TokenRange(tensor, 1, 2, 2).shape, (Shape{2, 0, 3}));
  EXPECT_EQ(StringOf(TokenRange(tensor, 1, 0, 4).bytes),
            StringOf(tensor.bytes));
}

}  // namespace
}  // namespace cpfeed

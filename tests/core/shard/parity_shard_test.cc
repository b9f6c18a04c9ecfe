#include "core/shard/parity_shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/batch/parity.h"
#include "tests/testing/packed_batches.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::CountingTensor;
using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor Ints32(std::vector<int32_t> values) {
  const int64_t size = static_cast<int64_t>(values.size());
  return Tensor::FromVector({size}, std::move(values));
}

// A converted chunk of eight tokens in slots of 4.
ParityDict Chunk() {
  ParityDict chunk;
  chunk.Set("input_ids", CountingTensor({8}));
  chunk.Set("labels", CountingTensor({8}));
  chunk.Set("position_ids", CountingTensor({8}));
  chunk.Set("cu_seqlens", Ints32({0, 4, 8, -1000}));
  return chunk;
}

TEST(ShardThdChunkForTeTest, FillersOfTheBoundariesPassThrough) {
  const auto shard = ShardThdChunkForTe(
      Chunk(), {.parity = Parity::kAutomodel07, .padding_token_id = 3},
      {.cp_size = 2, .cp_rank = 0});
  ASSERT_THAT(shard, IsOk());
  EXPECT_THAT(*shard->batch.FindTensor("input_ids")->ToInt64(),
              ElementsAre(0, 3, 4, 7));
  EXPECT_THAT(*shard->batch.FindTensor("cu_seqlens")->ToInt64(),
              ElementsAre(0, 4, 8, -1000));
  // Of a chunk without a mask the token values decide.
  EXPECT_THAT(*shard->batch.FindTensor("padding_mask")->ToInt64(),
              ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(*shard->local_indices->ToInt64(), ElementsAre(0, 3, 4, 7));
}

struct BadChunk {
  std::string name;
  std::function<void(ParityDict&)> spoil;
  std::string reason;
  std::string message_part;
  ParityRank rank = {.cp_size = 2, .cp_rank = 0};
};

class ShardThdChunkErrorTest : public ::testing::TestWithParam<BadChunk> {};

TEST_P(ShardThdChunkErrorTest, IsRefused) {
  ParityDict chunk = Chunk();
  GetParam().spoil(chunk);
  for (const Parity parity : {Parity::kAutomodel04, Parity::kAutomodel07}) {
    const auto shard =
        ShardThdChunkForTe(chunk, {.parity = parity}, GetParam().rank);
    EXPECT_THAT(shard, HasReason(GetParam().reason));
    EXPECT_THAT(shard, StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr(GetParam().message_part)));
  }
}

void KeepChunk(ParityDict&) {}

INSTANTIATE_TEST_SUITE_P(
    All, ShardThdChunkErrorTest,
    ::testing::ValuesIn(std::vector<BadChunk>{
        {"NoRanks", KeepChunk, kBadOption, "cp_size 0", {0, 0}},
        {"RankTooLarge", KeepChunk, kBadOption, "cp_rank is 2", {2, 2}},
        {"RankNegative", KeepChunk, kBadOption, "cp_rank is -1", {2, -1}},
        {"TooManyRanks", KeepChunk, kBadOption, "cp_size 65537", {65537, 0}},
        {"TokensDoNotDivide",
         KeepChunk,
         "RuntimeError",
         "8 tokens; must be a positive multiple of 2 * cp_size = 6",
         {3, 0}},
        {"SlotDoesNotDivide",
         [](ParityDict& c) {
           c.Set("cu_seqlens", Ints32({0, 3, 8}));
         },
         "RuntimeError", "slot boundary 1 is 3; must be a multiple of"},
        // TransformerEngine returns tokens 7 and 8 twice for these.
        {"SlotsEndEarly",
         [](ParityDict& c) {
           c.Set("cu_seqlens", Ints32({0, 4}));
         },
         kLengthsInconsistent, "slots end at 4; must be at 8"},
        {"SlotsBeginLate",
         [](ParityDict& c) {
           c.Set("cu_seqlens", Ints32({4, 8}));
         },
         kLengthsInconsistent, "must ascend from 0"},
        {"SlotsDescend",
         [](ParityDict& c) {
           c.Set("cu_seqlens", Ints32({0, 8, 4, 8}));
         },
         kLengthsInconsistent, "must ascend from 0"},
        {"NoSlots", [](ParityDict& c) { c.Set("cu_seqlens", Ints32({-1000})); },
         kLengthsInconsistent, "must ascend from 0"},
        {"NoBoundaries", [](ParityDict& c) { c.Erase("cu_seqlens"); },
         "KeyError", "cu_seqlens"},
        {"BoundariesNone",
         [](ParityDict& c) { c.Set("cu_seqlens", PlainValue{"null"}); },
         "TypeError", "cu_seqlens"},
        {"NoIds", [](ParityDict& c) { c.Erase("input_ids"); }, "KeyError",
         "input_ids"},
        {"NoLabels", [](ParityDict& c) { c.Erase("labels"); }, "KeyError",
         "labels"},
        {"PositionsNone",
         [](ParityDict& c) { c.Set("position_ids", PlainValue{"null"}); },
         "AttributeError", "position_ids"},
        {"PositionsOfThreeComponents",
         [](ParityDict& c) {
           c.Set("position_ids", CountingTensor({3, 1, 8}));
         },
         "IndexError", "row 3 is out of range"},
        {"PositionsTooMany",
         [](ParityDict& c) { c.Set("position_ids", CountingTensor({24})); },
         kShapeMismatch, "position_ids has shape [24]"},
        {"LabelsScalar",
         [](ParityDict& c) { c.Set("labels", CountingTensor({})); },
         "IndexError", "labels is a scalar"},
    }),
    [](const auto& info) { return info.param.name; });

// Two rows of 8 with slots of 4.
ParityDict Batch() {
  const Tensor fours =
      Tensor::FromVector<int64_t>({2, 2}, std::vector<int64_t>(4, 4));
  ParityDict batch;
  batch.Set("input_ids", CountingTensor({2, 8}));
  batch.Set("labels", CountingTensor({2, 8}));
  batch.Set("position_ids", CountingTensor({2, 8}));
  batch.Set("seq_lens", fours);
  batch.Set("seq_lens_padded", fours);
  return batch;
}

// Where upstream raises nothing, our message is the one that names the row.
TEST(MakeCpBatchForTeTest, RulesThatNameTheRowComeBeforeThePartition) {
  ParityDict batch = Batch();
  batch.Set("seq_lens_padded",
            Tensor::FromVector<int64_t>({2, 2}, {4, 4, 4, -1000}));
  batch.Set("seq_lens", Tensor::FromVector<int64_t>({2, 2}, {4, 4, 4, -1000}));
  const auto shard = MakeCpBatchForTe(batch, {.parity = Parity::kAutomodel04},
                                      "thd", {.cp_size = 2, .cp_rank = 1});
  EXPECT_THAT(shard, HasReason(kLengthsInconsistent));
  EXPECT_THAT(shard, StatusIs(absl::StatusCode::kInvalidArgument,
                              HasSubstr("row 1: padded lengths sum to 4")));
}

TEST(MakeCpBatchForTeTest, ChunkOfAFaultIsNamed) {
  ParityDict batch = Batch();
  const Tensor lengths = Tensor::FromVector<int64_t>({2, 2}, {4, 4, 3, 5});
  batch.Set("seq_lens", lengths);
  batch.Set("seq_lens_padded", lengths);
  const auto shard =
      MakeCpBatchForTe(batch, {.parity = Parity::kAutomodel07, .num_chunks = 2},
                       "thd", {.cp_size = 2, .cp_rank = 1});
  EXPECT_THAT(shard, HasReason("RuntimeError"));
  EXPECT_THAT(shard, StatusIs(absl::StatusCode::kInvalidArgument,
                              HasSubstr("chunk 1: slot boundary 1 is 3")));
}

// Upstream's map counts the width of embeddings, and so does this mode.
TEST(MakeCpBatchForTeTest, IdentityOfEmbeddingsHasTheirWidth) {
  ParityDict batch = Batch();
  batch.Set("input_ids",
            Tensor::FromVector<float>({2, 8, 3}, std::vector<float>(48, 1)));
  const auto shard = MakeCpBatchForTe(batch, {.parity = Parity::kAutomodel07},
                                      "thd", ParityRank());
  ASSERT_THAT(shard, IsOk());
  EXPECT_THAT(*shard->local_indices->ToInt64(), ElementsAre(0, 1, 2));
}

TEST(MakeCpBatchForTeTest, FormatIsCheckedBeforeAnythingElse) {
  EXPECT_THAT(MakeCpBatchForTe(ParityDict(), {}, "bshd", ParityRank()),
              HasReason("ValueError"));
}

}  // namespace
}  // namespace cpfeed

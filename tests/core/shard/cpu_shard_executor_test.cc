// The executor against the obvious way, over random batches.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/plan/layout.h"
#include "core/plan/layout_spec.h"
#include "core/plan/shard_plan.h"
#include "core/shard/prepare_batch.h"
#include "core/shard/shard.h"
#include "core/shard/shard_executor.h"
#include "core/tensor/tensor.h"
#include "core/thd/thd_batch.h"
#include "tests/core/shard/shard_cases.h"
#include "tests/core/shard/shard_reference.h"
#include "tests/testing/packed_batches.h"
#include "tests/testing/random_batches.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::CountingBatch;
using ::cpfeed::testing::CountingTensor;
using ::cpfeed::testing::Fragmented;
using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::NumRounds;
using ::cpfeed::testing::PaddedStream;
using ::cpfeed::testing::PrepareRandom;
using ::cpfeed::testing::Ragged;
using ::cpfeed::testing::RandomTensor;
using ::cpfeed::testing::ShardBytes;
using ::cpfeed::testing::ShardCase;
using ::cpfeed::testing::SourceOfStream;
using ::cpfeed::testing::StatusIs;
using ::cpfeed::testing::Stream;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string StringOf(const Buffer& buffer) {
  std::string bytes(static_cast<size_t>(buffer.size()), '\0');
  buffer.CopyTo(bytes.data());
  return bytes;
}

Shape LocalShape(const ThdTensor& tensor, int64_t num_tokens) {
  Shape shape = tensor.outer;
  shape.push_back(num_tokens);
  shape.insert(shape.end(), tensor.inner.begin(), tensor.inner.end());
  return shape;
}

int64_t CountLabels(const Tensor& labels) {
  const auto values = labels.ToInt64();
  return static_cast<int64_t>(values->size()) -
         std::count(values->begin(), values->end(), -100);
}

absl::StatusOr<std::vector<StepShard>> Cut(const PreparedBatch& batch) {
  return MakeCpuShardExecutor()->Execute(batch.thd, batch.plans);
}

// One chunk of a step at all ranks.
void CheckChunk(const PreparedBatch& batch, size_t c,
                const std::vector<StepShard>& steps) {
  const ThdChunk& chunk = batch.thd.chunks[c];
  const ShardPlan& plan = *batch.plans[c];
  const std::vector<int32_t> sources = SourceOfStream(chunk);
  for (int rank = 0; rank < plan.cp_size; ++rank) {
    const Shard& shard = steps[rank].chunks[c];
    ASSERT_EQ(shard.cp_rank, rank);
    ASSERT_EQ(shard.plan, batch.plans[c]);
    ASSERT_EQ(shard.num_tokens, plan.ranks[rank].num_tokens);
    ASSERT_EQ(shard.tensors.size(), batch.thd.tensors.size());
    ASSERT_EQ(shard.num_label_tokens, CountLabels(shard.tensors[1].tensor));
    std::vector<int32_t> expected_sources;
    for (const int32_t position : LocalIndex(plan, rank)) {
      expected_sources.push_back(position < 0 ? -1 : sources[position]);
    }
    ASSERT_EQ(SourceIndex(shard), expected_sources);
  }
  for (size_t t = 0; t < batch.thd.tensors.size(); ++t) {
    const ThdTensor& tensor = batch.thd.tensors[t];
    const Stream stream = PaddedStream(batch.thd, chunk, tensor);
    for (int rank = 0; rank < plan.cp_size; ++rank) {
      const Shard& shard = steps[rank].chunks[c];
      const NamedTensor& local = shard.tensors[t];
      ASSERT_EQ(local.name, tensor.name);
      ASSERT_EQ(local.tensor.dtype, tensor.dtype);
      ASSERT_EQ(local.tensor.shape, LocalShape(tensor, shard.num_tokens));
      ASSERT_EQ(StringOf(local.tensor.bytes),
                ShardBytes(batch.thd, tensor, stream, plan, rank))
          << tensor.name << " of rank " << rank;
    }
  }
}

class CpuShardExecutorTest : public ::testing::TestWithParam<ShardCase> {};

TEST_P(CpuShardExecutorTest, ShardsAreRowsOfThePaddedStream) {
  std::mt19937_64 random(GetParam().cp_size);
  for (int round = 0; round < NumRounds(GetParam()); ++round) {
    SCOPED_TRACE(::testing::Message() << "round " << round);
    const auto batch = PrepareRandom(GetParam(), random);
    ASSERT_THAT(batch, IsOk());
    const auto steps = Cut(*batch);
    ASSERT_THAT(steps, IsOk());
    ASSERT_EQ(steps->size(), GetParam().cp_size);
    for (const StepShard& step : *steps) {
      ASSERT_EQ(step.chunks.size(), batch->thd.chunks.size());
      ASSERT_EQ(step.num_label_tokens_global,
                CountLabels(batch->thd.tensors[1].tensor));
    }
    for (size_t c = 0; c < batch->thd.chunks.size(); ++c) {
      CheckChunk(*batch, c, *steps);
      if (HasFatalFailure()) return;
    }
  }
}

// Property: scattering all ranks' rows by their source index gives the input.
TEST_P(CpuShardExecutorTest, GatheringUndoesSharding) {
  std::mt19937_64 random(100 + GetParam().cp_size);
  for (int round = 0; round < NumRounds(GetParam()); ++round) {
    const auto batch = PrepareRandom(GetParam(), random);
    ASSERT_THAT(batch, IsOk());
    const auto steps = Cut(*batch);
    ASSERT_THAT(steps, IsOk());
    const Tensor& labels = batch->thd.tensors[1].tensor;
    std::vector<int64_t> restored(batch->thd.num_rows * batch->thd.row_width,
                                  INT64_MIN);
    for (const StepShard& step : *steps) {
      for (const Shard& shard : step.chunks) {
        const auto local = shard.tensors[1].tensor.ToInt64();
        const std::vector<int32_t> index = SourceIndex(shard);
        for (size_t row = 0; row < index.size(); ++row) {
          if (index[row] < 0) continue;
          restored[shard.chunk->source_begin + index[row]] = (*local)[row];
        }
      }
    }
    ASSERT_EQ(restored, *labels.ToInt64());
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, CpuShardExecutorTest,
    ::testing::ValuesIn(::cpfeed::testing::AllShardCases()),
    [](const auto& info) {
      return ::cpfeed::testing::ShardCaseName(info.param);
    });

PreparedBatch HeadTailOnTwo(const PackedBatch& batch,
                            BatchOptions options = {}) {
  const auto prepared =
      PrepareBatch(batch, options, {.layout = Layout::kHeadTailPerSequence}, 2);
  EXPECT_THAT(prepared, IsOk());
  return prepared.value_or(PreparedBatch());
}

const Tensor& Find(const Shard& shard, absl::string_view name) {
  for (const NamedTensor& named : shard.tensors) {
    if (named.name == name) return named.tensor;
  }
  ADD_FAILURE() << "no tensor " << name;
  return shard.tensors[0].tensor;
}

TEST(ShardContentTest, ReadsAsInThePicture) {
  // Slots:   a a a . b b b b
  // Holder:  0 1 1 0 0 1 1 0
  PackedBatch batch = CountingBatch(1, 8);
  batch.seq_lens = Ragged({{3, 4}});
  batch.seq_lens_padded = Ragged({{4, 4}});
  const auto steps = Cut(HeadTailOnTwo(batch));
  ASSERT_THAT(steps, IsOk());
  const Shard& first = (*steps)[0].chunks[0];
  EXPECT_THAT(Find(first, "input_ids").Values<int64_t>(),
              ElementsAre(0, 3, 4, 7));
  EXPECT_THAT(Find(first, "labels").Values<int64_t>(), ElementsAre(1, 4, 5, 8));
  EXPECT_THAT(Find(first, "position_ids").Values<int64_t>(),
              ElementsAre(0, 3, 0, 3));
  EXPECT_THAT(Find(first, "padding_mask").Values<bool>(),
              ElementsAre(false, true, false, false));
  EXPECT_THAT(first.local.cu_seqlens, ElementsAre(0, 1, 3));
  EXPECT_THAT(first.local.cu_seqlens_padded, ElementsAre(0, 2, 4));
  EXPECT_EQ(first.num_label_tokens, 4);
  EXPECT_EQ((*steps)[0].num_label_tokens_global, 8);
}

TEST(ShardContentTest, InsertedPadsContinueTheirSlot) {
  // Input:   a a a b b b b b     auto_pad to 4
  // Stream:  a a a + b b b b b + + +
  PackedBatch batch = CountingBatch(1, 8);
  batch.seq_lens = Ragged({{3, 5}});
  batch.position_ids = CountingTensor({2, 1, 8}, 100);  // Two components.
  batch.extras.push_back({"weight", CountingTensor({1, 8}, 1)});
  const auto steps =
      Cut(HeadTailOnTwo(batch, {.padding_token_id = 77, .auto_pad = true}));
  ASSERT_THAT(steps, IsOk());
  const Shard& first = (*steps)[0].chunks[0];
  EXPECT_THAT(Find(first, "input_ids").Values<int64_t>(),
              ElementsAre(0, 77, 3, 4, 77, 77));
  EXPECT_THAT(Find(first, "labels").Values<int64_t>(),
              ElementsAre(1, -100, 4, 5, -100, -100));
  EXPECT_EQ(Find(first, "position_ids").shape, (Shape{2, 6}));
  EXPECT_THAT(Find(first, "position_ids").Values<int64_t>(),
              ElementsAre(100, 103, 103, 104, 109, 110,  //
                          108, 111, 111, 112, 117, 118));
  EXPECT_THAT(Find(first, "weight").Values<int64_t>(),
              ElementsAre(1, 0, 4, 5, 0, 0));
  EXPECT_THAT(SourceIndex(first), ElementsAre(0, -1, 3, 4, -1, -1));
}

// Four tokens on two ranks, and two rows more on rank 1, as a layout with
// token_multiple gives them. Returns the shard of rank 1.
Shard CutWithPadRows(const PackedBatch& batch) {
  PreparedBatch prepared = HeadTailOnTwo(batch, {.padding_token_id = 9});
  ShardPlan plan = *prepared.plans[0];
  plan.ranks[1].pad_rows = 2;
  plan.ranks[1].num_tokens += 2;
  prepared.plans[0] = std::make_shared<const ShardPlan>(plan);
  const auto steps = Cut(prepared);
  EXPECT_THAT(steps, IsOk());
  return (*steps)[1].chunks[0];
}

TEST(ShardContentTest, RowsWithoutAPositionArePadding) {
  PackedBatch batch = CountingBatch(1, 4);
  batch.position_ids = CountingTensor({1, 4}, 10);
  const Shard last = CutWithPadRows(batch);
  EXPECT_THAT(Find(last, "input_ids").Values<int64_t>(),
              ElementsAre(1, 2, 9, 9));
  EXPECT_THAT(Find(last, "labels").Values<int64_t>(),
              ElementsAre(2, 3, -100, -100));
  EXPECT_THAT(Find(last, "position_ids").Values<int64_t>(),
              ElementsAre(11, 12, 0, 0));
  EXPECT_THAT(Find(last, "padding_mask").Values<bool>(),
              ElementsAre(false, false, true, true));
  EXPECT_THAT(SourceIndex(last), ElementsAre(1, 2, -1, -1));
  EXPECT_THAT(last.local.cu_seqlens_padded, ElementsAre(0, 2));
  EXPECT_EQ(last.num_label_tokens, 2);
}

TEST(ShardContentTest, GeneratedPositionsOfRowsWithoutAPositionAreZero) {
  EXPECT_THAT(Find(CutWithPadRows(CountingBatch(1, 4)), "position_ids")
                  .Values<int64_t>(),
              ElementsAre(1, 2, 0, 0));
}

TEST(ShardContentTest, RankMayHoldNothing) {
  PackedBatch batch = CountingBatch(1, 3);
  batch.extras.push_back({"wide", CountingTensor({2, 1, 3, 2}), 2});
  const auto prepared = PrepareBatch(
      batch, {}, {.layout = Layout::kContiguous, .uneven = true}, 4);
  ASSERT_THAT(prepared, IsOk());
  const auto steps = Cut(*prepared);
  ASSERT_THAT(steps, IsOk());
  const Shard& first = (*steps)[0].chunks[0];
  EXPECT_EQ(first.num_tokens, 0);
  EXPECT_EQ(first.num_label_tokens, 0);
  EXPECT_EQ(Find(first, "wide").shape, (Shape{2, 0, 2}));
  EXPECT_EQ(Find(first, "wide").bytes.size(), 0);
  EXPECT_EQ(Find((*steps)[1].chunks[0], "wide").shape, (Shape{2, 1, 2}));
}

// Whether all bytes of `part` lie in memory of `whole`.
bool Shares(const Buffer& part, const Buffer& whole) {
  for (const Buffer::Fragment& piece : part.fragments()) {
    const bool inside = std::any_of(
        whole.fragments().begin(), whole.fragments().end(),
        [&](const Buffer::Fragment& fragment) {
          return fragment.data <= piece.data &&
                 piece.data + piece.size <= fragment.data + fragment.size;
        });
    if (!inside) return false;
  }
  return true;
}

// 4096 tokens on two ranks: runs of 1024 and 2048 rows.
PackedBatch WideBatch() {
  std::mt19937_64 random(1);
  PackedBatch batch = CountingBatch(1, 4096);
  batch.labels = RandomTensor(DType::kInt32, {1, 4096}, random);
  batch.input_ids = RandomTensor(DType::kBfloat16, {1, 4096, 64}, random);
  return batch;
}

TEST(ShardSliceTest, LongRunsAreSlicesOfTheInputAndShortOnesCopies) {
  PackedBatch batch = WideBatch();
  batch.input_ids = Fragmented(batch.input_ids, 100'001);
  const auto steps = Cut(HeadTailOnTwo(batch));
  ASSERT_THAT(steps, IsOk());
  for (const StepShard& step : *steps) {
    const Shard& shard = step.chunks[0];
    EXPECT_TRUE(Shares(Find(shard, "input_ids").bytes, batch.input_ids.bytes));
    const Buffer& labels = Find(shard, "labels").bytes;
    EXPECT_FALSE(Shares(labels, batch.labels.bytes));
    EXPECT_EQ(labels.fragments().size(), 1);
  }
}

TEST(ShardSliceTest, TensorsIntoWhichPadsAreInsertedAreCopied) {
  PackedBatch batch = WideBatch();
  batch.seq_lens = Ragged({{4095, 1}});
  const auto steps = Cut(HeadTailOnTwo(batch, {.auto_pad = true}));
  ASSERT_THAT(steps, IsOk());
  const Buffer& ids = Find((*steps)[0].chunks[0], "input_ids").bytes;
  EXPECT_FALSE(Shares(ids, batch.input_ids.bytes));
  EXPECT_EQ(ids.fragments().size(), 1);
}

TEST(ShardSliceTest, SlicesKeepTheInputAlive) {
  PackedBatch batch = WideBatch();
  auto bytes = std::make_shared<std::string>(StringOf(batch.input_ids.bytes));
  const std::string copy = *bytes;
  const std::weak_ptr<std::string> alive = bytes;
  batch.input_ids.bytes =
      Buffer::Wrap(bytes, bytes->data(), static_cast<int64_t>(bytes->size()));
  bytes.reset();
  auto steps = Cut(HeadTailOnTwo(batch));
  ASSERT_THAT(steps, IsOk());
  batch = PackedBatch();
  EXPECT_EQ(StringOf(Find((*steps)[0].chunks[0], "input_ids").bytes),
            copy.substr(0, 1024 * 128) + copy.substr(3072 * 128));
  steps->clear();
  EXPECT_TRUE(alive.expired());
}

TEST(ShardErrorTest, PlansMustBeThoseOfTheChunks) {
  PreparedBatch batch = HeadTailOnTwo(CountingBatch(2, 4), {.num_chunks = 2});
  ASSERT_THAT(Cut(batch), IsOk());
  const auto other = PlanShards({{8}, {8}, {0, 1}}, batch.plans[0]->spec, 2);
  const auto three = PlanShards(batch.thd.chunks[0].lengths,
                                {.layout = Layout::kContiguous}, 4);
  ASSERT_THAT(other, IsOk());
  ASSERT_THAT(three, IsOk());

  auto with = [&](const ShardPlan& plan) {
    PreparedBatch changed = batch;
    changed.plans[1] = std::make_shared<const ShardPlan>(plan);
    return Cut(changed);
  };
  EXPECT_THAT(with(*other), StatusIs(absl::StatusCode::kInvalidArgument,
                                     HasSubstr("plan of chunk 1")));
  EXPECT_THAT(with(*other), HasReason(kShapeMismatch));
  EXPECT_THAT(with(*three), StatusIs(absl::StatusCode::kInvalidArgument,
                                     AllOf(HasSubstr("plan of chunk 1"),
                                           HasSubstr("4 ranks; must be 2"))));
  EXPECT_THAT(with(*three), HasReason(kTopologyMismatch));
  batch.plans.pop_back();
  EXPECT_THAT(Cut(batch), StatusIs(absl::StatusCode::kInvalidArgument,
                                   HasSubstr("1 plans for 2 chunks")));
  batch.plans.clear();
  EXPECT_THAT(Cut(batch), HasReason(kShapeMismatch));
}

}  // namespace
}  // namespace cpfeed

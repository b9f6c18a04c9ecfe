#include "tests/core/shard/shard_cases.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "core/batch/packed_batch.h"
#include "tests/testing/random_batches.h"

namespace cpfeed::testing {
namespace {

std::string StringOf(const Buffer& buffer) {
  std::string bytes(static_cast<size_t>(buffer.size()), '\0');
  buffer.CopyTo(bytes.data());
  return bytes;
}

void ExpectSameShard(const Shard& actual, const Shard& expected) {
  EXPECT_EQ(actual.cp_rank, expected.cp_rank);
  EXPECT_EQ(actual.plan, expected.plan);
  EXPECT_EQ(actual.num_tokens, expected.num_tokens);
  EXPECT_EQ(actual.num_label_tokens, expected.num_label_tokens);
  EXPECT_EQ(actual.local.cu_seqlens, expected.local.cu_seqlens);
  EXPECT_EQ(actual.local.cu_seqlens_padded, expected.local.cu_seqlens_padded);
  ASSERT_EQ(actual.tensors.size(), expected.tensors.size());
  for (size_t t = 0; t < expected.tensors.size(); ++t) {
    const NamedTensor& mine = actual.tensors[t];
    const NamedTensor& other = expected.tensors[t];
    SCOPED_TRACE(other.name);
    EXPECT_EQ(mine.name, other.name);
    EXPECT_EQ(mine.token_axis, other.token_axis);
    EXPECT_EQ(mine.tensor.dtype, other.tensor.dtype);
    EXPECT_EQ(mine.tensor.shape, other.tensor.shape);
    // Of megabytes a test's log is no place.
    EXPECT_TRUE(StringOf(mine.tensor.bytes) == StringOf(other.tensor.bytes));
  }
}

}  // namespace

std::vector<ShardCase> AllShardCases() {
  std::vector<ShardCase> cases;
  for (const Layout layout :
       {Layout::kContiguous, Layout::kHeadTailPerRow,
        Layout::kHeadTailPerSequence, Layout::kStriped, Layout::kChunkGreedy,
        Layout::kPtrr, Layout::kBalanced}) {
    for (int cp_size = 1; cp_size <= 16; ++cp_size) {
      cases.push_back({layout, cp_size});
    }
  }
  return cases;
}

std::string ShardCaseName(const ShardCase& shard_case) {
  return absl::StrCat(LayoutName(shard_case.layout), "On", shard_case.cp_size);
}

LayoutSpec SpecOf(const ShardCase& shard_case) {
  return {.layout = shard_case.layout,
          .stripe_width = 3,
          .chunk_size = 8,
          .keep_padding = true,
          .token_multiple = 3};
}

int NumRounds(const ShardCase& shard_case) {
  return shard_case.layout == Layout::kPtrr ? 2 : 12;
}

absl::StatusOr<PreparedBatch> PrepareRandom(const ShardCase& shard_case,
                                            std::mt19937_64& random) {
  const LayoutSpec spec = SpecOf(shard_case);
  BatchOptions options{
      .num_chunks = static_cast<int64_t>(random() % 3 + 1),
      .padding_token_id = static_cast<int64_t>(random() % 1000),
      .auto_fill = random() % 2 == 0,
      .auto_pad = random() % 2 == 0};
  BatchShape shape{.fill = options.auto_fill};
  shape.num_rows = options.num_chunks * static_cast<int64_t>(random() % 2 + 1);
  const PadRule rule = PadRuleOf(spec, shard_case.cp_size);
  if (!options.auto_pad) {
    shape.width_multiple = rule.multiple;
    if (rule.scope == PadRule::Scope::kSlot) {
      shape.slot_multiple = rule.multiple;
      // What is filled would not divide.
      shape.fill = false;
    }
  }
  return PrepareBatch(RandomBatch(shape, random), options, spec,
                      shard_case.cp_size);
}

void ExpectSameShards(const std::vector<StepShard>& actual,
                      const std::vector<StepShard>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t rank = 0; rank < expected.size(); ++rank) {
    SCOPED_TRACE(absl::StrCat("rank ", rank));
    EXPECT_EQ(actual[rank].num_label_tokens_global,
              expected[rank].num_label_tokens_global);
    ASSERT_EQ(actual[rank].chunks.size(), expected[rank].chunks.size());
    for (size_t c = 0; c < expected[rank].chunks.size(); ++c) {
      SCOPED_TRACE(absl::StrCat("chunk ", c));
      ExpectSameShard(actual[rank].chunks[c], expected[rank].chunks[c]);
    }
  }
}

}  // namespace cpfeed::testing

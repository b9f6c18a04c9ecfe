#include "core/shard/cuda/shard_task_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "core/base/error.h"
#include "core/plan/rank_plan.h"
#include "core/shard/cuda/host_shard_kernel.h"
#include "core/shard/cuda/shard_task.h"
#include "core/thd/thd_batch.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// One sequence of `tokens` tokens, all real, with one tensor of rows
// [planes][tokens][columns].
ThdBatch OneSequence(int64_t tokens, DType dtype, int64_t planes,
                     int64_t columns) {
  ThdBatch batch{.num_rows = 1, .row_width = tokens};
  batch.chunks.push_back(
      {.lengths = {.real = {tokens}, .padded = {tokens}, .row_splits = {0, 1}},
       .source = {tokens},
       .source_tokens = tokens,
       .total_tokens = tokens});
  batch.tensors.push_back({.name = "patches",
                           .dtype = dtype,
                           .outer = {planes},
                           .inner = {columns}});
  return batch;
}

// Every other row, beginning with row `first`, so that each is a segment.
RankPlan EveryOther(int32_t tokens, int32_t first) {
  RankPlan plan;
  for (int32_t i = first; i < tokens; i += 2)
    plan.segments.push_back({0, i, 1});
  plan.num_tokens = static_cast<int64_t>(plan.segments.size());
  return plan;
}

ShardTask Task(const ShardTaskBuilder& builder, std::vector<std::byte>& room) {
  room.resize(static_cast<size_t>(builder.DescriptorBytes()) + 16);
  const auto address = reinterpret_cast<uint64_t>(room.data());
  std::byte* const aligned = room.data() + (16 - address % 16) % 16;
  return builder.Write(aligned, aligned);
}

struct Alignment {
  int64_t source;
  int64_t out;
};

class AnyAlignmentTest : public ::testing::TestWithParam<Alignment> {};

// Wherever source and output begin, and however long rows are, the bytes are
// those of a copy row by row, and none beside them changes.
TEST_P(AnyAlignmentTest, RowsAreCopiedAndNothingElse) {
  constexpr int64_t kTokens = 301;
  constexpr int64_t kPlanes = 3;
  std::mt19937_64 random(7);
  for (const int64_t columns : {1, 2, 3, 5, 8, 15, 16, 17, 33, 64, 1000}) {
    SCOPED_TRACE(columns);
    const ThdBatch batch =
        OneSequence(kTokens, DType::kUint8, kPlanes, columns);
    const RankPlan plan = columns % 2 == 0
                              ? EveryOther(kTokens, 1)
                              : RankPlan{{{0, 7, 250}, {0, 260, 41}}, 291, 0};
    std::vector<unsigned char> source(kPlanes * kTokens * columns + 16);
    for (unsigned char& byte : source) byte = random() % 256;
    const int64_t out_bytes = kPlanes * plan.num_tokens * columns;
    alignas(16) static unsigned char room[1 << 20];
    ASSERT_LE(out_bytes + 64, sizeof(room));
    std::memset(room, 0x5a, sizeof(room));
    unsigned char* const out = room + 16 + GetParam().out;
    const unsigned char* const from = source.data() + GetParam().source;

    ShardTaskBuilder builder(batch);
    ASSERT_THAT(builder.AddShard(batch.chunks[0], plan, {from}, {out}), IsOk());
    std::vector<std::byte> descriptors;
    RunShardTaskOnHost(Task(builder, descriptors));

    const unsigned char* row = out;
    for (int64_t plane = 0; plane < kPlanes; ++plane) {
      for (const Segment& segment : plan.segments) {
        const int64_t bytes = segment.length * columns;
        ASSERT_EQ(
            std::memcmp(row, from + (plane * kTokens + segment.begin) * columns,
                        bytes),
            0);
        row += bytes;
      }
    }
    ASSERT_EQ(row, out + out_bytes);
    ASSERT_EQ(out[-1], 0x5a);
    ASSERT_EQ(out[out_bytes], 0x5a);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, AnyAlignmentTest,
    ::testing::ValuesIn(std::vector<Alignment>{
        {0, 0}, {0, 8}, {8, 0}, {4, 12}, {2, 6}, {1, 0}, {0, 1}, {3, 15}}),
    [](const auto& info) {
      return "From" + std::to_string(info.param.source) + "To" +
             std::to_string(info.param.out);
    });

TEST(ShardTaskBuilderTest, TilesCoverTheOutputOnce) {
  // 1000 rows of 100 bytes: six tiles of 16 KiB and a rest, for each plane.
  const ThdBatch batch = OneSequence(2000, DType::kUint8, 2, 100);
  const RankPlan plan = EveryOther(2000, 0);
  alignas(16) unsigned char byte[1] = {};
  ShardTaskBuilder builder(batch);
  ASSERT_THAT(builder.AddShard(batch.chunks[0], plan, {byte}, {byte}), IsOk());
  ASSERT_EQ(builder.tiles().size(), 14);
  EXPECT_EQ(builder.out_bytes(), 200'000);
  for (int32_t plane = 0; plane < 2; ++plane) {
    int64_t next = 0;
    for (int i = 0; i < 7; ++i) {
      const ShardTile& tile = builder.tiles()[plane * 7 + i];
      EXPECT_EQ(tile.plane, plane);
      EXPECT_EQ(tile.row * 100 + tile.column, next);
      EXPECT_EQ(tile.first_segment, tile.row);
      next += tile.bytes;
      EXPECT_EQ(tile.first_segment + tile.num_segments, (next + 99) / 100);
      // The second plane begins 100000 bytes behind the first: 0 behind 16.
      if (i < 6) {
        EXPECT_EQ(next % kShardTileBytes, 0);
      }
    }
    EXPECT_EQ(next, 100'000);
  }
}

TEST(ShardTaskBuilderTest, SegmentsSayWhatRowsAre) {
  // Slots of 4 (3 real, 2 from the input) and 2; one row of no position.
  ThdBatch batch{.num_rows = 1, .row_width = 4};
  batch.chunks.push_back({.lengths = {{3, 2}, {4, 2}, {0, 2}},
                          .source = {2, 2},
                          .source_begin = 10,
                          .source_tokens = 4,
                          .total_tokens = 6});
  const RankPlan plan{
      {{.sequence = 0, .begin = 1, .length = 3}, {.sequence = 1, .length = 2}},
      6,
      1};
  ShardTaskBuilder builder(batch);
  ASSERT_THAT(builder.AddShard(batch.chunks[0], plan, {}, {}), IsOk());
  ASSERT_EQ(builder.segments().size(), 3);
  const auto fields = [](const ShardSegment& s) {
    return std::vector<int32_t>{s.row,  s.length, s.begin,
                                s.real, s.input,  s.source};
  };
  EXPECT_THAT(fields(builder.segments()[0]), ElementsAre(0, 3, 1, 3, 2, 10));
  EXPECT_THAT(fields(builder.segments()[1]), ElementsAre(3, 2, 0, 2, 2, 12));
  EXPECT_THAT(fields(builder.segments()[2]), ElementsAre(5, 1, -1, 0, 0, 0));
}

TEST(ShardTaskBuilderTest, RanksWithoutRowsAndTensorsWithoutBytesAreNoWork) {
  const ThdBatch batch = OneSequence(8, DType::kFloat32, 1, 0);
  alignas(16) unsigned char byte[1] = {};
  ShardTaskBuilder builder(batch);
  ASSERT_THAT(builder.AddShard(batch.chunks[0], {}, {byte}, {byte}), IsOk());
  ASSERT_THAT(
      builder.AddShard(batch.chunks[0], EveryOther(8, 0), {byte}, {byte}),
      IsOk());
  std::vector<std::byte> room;
  EXPECT_EQ(Task(builder, room).num_tiles, 0);
}

TEST(ShardTaskBuilderTest, AddressesMustFitTheElements) {
  const ThdBatch batch = OneSequence(8, DType::kInt64, 1, 1);
  alignas(16) unsigned char bytes[16] = {};
  ShardTaskBuilder builder(batch);
  const absl::Status status =
      builder.AddShard(batch.chunks[0], EveryOther(8, 0), {bytes + 4}, {bytes});
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                               AllOf(HasSubstr("address of patches"),
                                     HasSubstr("its element of 8 bytes"))));
  EXPECT_THAT(status, HasReason(kShapeMismatch));
}

TEST(ShardTaskBuilderTest, RowsThatTheKernelCannotCountAreRefused) {
  const ThdBatch batch = OneSequence(2, DType::kUint8, 1, (1 << 30) + 1);
  alignas(16) unsigned char byte[1] = {};
  ShardTaskBuilder builder(batch);
  const absl::Status status =
      builder.AddShard(batch.chunks[0], EveryOther(2, 0), {byte}, {byte});
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                               HasSubstr("row of patches is 1073741825; one "
                                         "launch takes 1073741824 at most")));
  EXPECT_THAT(status, HasReason(kNotSupported));
}

}  // namespace
}  // namespace cpfeed::testing

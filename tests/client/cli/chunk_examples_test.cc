// Small batches cut into chunks by hand, through the native mode and the
// releases that the parity modes follow.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "client/cli/shard_flags.h"
#include "tests/client/cli/shard_runs.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::Batch;
using ::cpfeed::testing::CountingRows;
using ::cpfeed::testing::FourRows;
using ::cpfeed::testing::Ints;
using ::cpfeed::testing::kFiller;
using ::cpfeed::testing::Native;
using ::cpfeed::testing::ReasonFor;
using ::cpfeed::testing::Release04;
using ::cpfeed::testing::Release07;
using ::nlohmann::json;

TEST(ChunksTest, ChunksAreConsecutiveRows) {
  const json six = {{6}, {6}, {6}, {6}};
  const json batch = Batch(CountingRows(4, 6), six, six);
  for (const json& release : {Release04(batch, {.num_chunks = "2"})[0],
                              Release07(batch, {.num_chunks = "2"})[0]}) {
    EXPECT_EQ(release["input_ids"]["sh"], Ints({2, 12}));
    EXPECT_EQ(release["cu_seqlens"]["v"], Ints({0, 6, 12, 0, 6, 12}));
  }
  const json chunks = Native(batch, {.num_chunks = "2"});
  ASSERT_EQ(chunks.size(), 2);
  EXPECT_EQ(chunks[1]["cu_seqlens"], Ints({0, 6, 12}));
  EXPECT_EQ(chunks[1]["ranks"][0]["input_ids"][0], 13);

  const json lengths(16, json({32}));
  const json release = Release07(Batch(CountingRows(16, 32), lengths, lengths),
                                 {.num_chunks = "8"})[0];
  EXPECT_EQ(release["input_ids"]["sh"], Ints({8, 64}));
  EXPECT_EQ(release["cu_seqlens"]["sh"], Ints({8, 3}));
  EXPECT_EQ(release["cu_seqlens"]["v"].back(), 64);
}

TEST(ChunksTest, ChunksOfDifferentCountsAreFilledUpUpstreamOnly) {
  const ShardFlags flags{.num_chunks = "2"};
  EXPECT_EQ(Release04(FourRows(), flags)[0]["cu_seqlens"]["v"],
            Ints({0, 4, 8, 16, 0, 8, 16, kFiller}));
  const json release = Release07(FourRows(), flags)[0];
  EXPECT_EQ(release["cu_seqlens"]["v"], Ints({0, 4, 7, 15, 0, 6, 14, kFiller}));
  EXPECT_EQ(release["cu_seqlens_padded"]["v"],
            Ints({0, 4, 8, 16, 0, 8, 16, kFiller}));
  EXPECT_EQ(release["max_seqlen"]["v"], Ints({8, 8}));
  Ints mask(32);
  mask[7] = mask[16 + 6] = mask[16 + 7] = 1;
  EXPECT_EQ(release["padding_mask"]["v"], mask);
  const json chunks = Native(FourRows(), flags);
  EXPECT_EQ(chunks[0]["cu_seqlens"], Ints({0, 4, 7, 15}));
  EXPECT_EQ(chunks[1]["cu_seqlens"], Ints({0, 6, 14}));
  EXPECT_EQ(chunks[1]["cu_seqlens_padded"], Ints({0, 8, 16}));
}

TEST(ChunksTest, AbsorptionIsPerChunk) {
  const json release = Release07(FourRows(), {.num_chunks = "4"})[0];
  EXPECT_EQ(release["cu_seqlens"]["v"],
            Ints({0, 4, 8, 0, 8, kFiller, 0, 8, kFiller, 0, 8, kFiller}));
  EXPECT_FALSE(release.contains("cu_seqlens_padded"));
  EXPECT_EQ(release["max_seqlen"]["v"], Ints({4, 8, 8, 8}));
}

TEST(ChunksTest, RowsThatDoNotDivideAreRefused) {
  for (const char* mode : {"native", "automodel_0_4", "automodel_0_7"}) {
    EXPECT_EQ(ReasonFor(FourRows(), {.num_chunks = "3", .parity = mode}),
              "BAD_OPTION");
  }
  EXPECT_EQ(ReasonFor(FourRows(), {.num_chunks = "8"}), "BAD_OPTION");
  EXPECT_EQ(
      ReasonFor(FourRows(), {.num_chunks = "8", .parity = "automodel_0_4"}),
      "RuntimeError");
}

TEST(ChunksTest, SentinelMustBeTheConfiguredOne) {
  const json batch = Batch(CountingRows(2, 6), {{3, 3, -999}, {3, 3, -999}},
                           {{3, 3, -999}, {3, 3, -999}});
  for (const char* mode : {"native", "automodel_0_4", "automodel_0_7"}) {
    EXPECT_EQ(ReasonFor(batch, {.parity = mode}), "LENGTHS_INCONSISTENT");
  }
  const ShardFlags flags{.num_chunks = "2", .seq_lens_padding_value = "-999"};
  EXPECT_EQ(Release04(batch, flags)[0]["cu_seqlens"]["v"],
            Ints({0, 3, 6, 0, 3, 6}));
  EXPECT_EQ(Native(batch, flags)[1]["cu_seqlens"], Ints({0, 3, 6}));
}

TEST(ChunksTest, RowThatIsNotFullIsRefusedOrFilled) {
  const json x = kFiller;
  const json batch =
      Batch(CountingRows(4, 6), {{3, 2, x}, {6, x, x}, {4, x, x}, {2, 3, x}},
            {{4, 2, x}, {6, x, x}, {4, x, x}, {3, 3, x}});
  for (const char* mode : {"native", "automodel_0_4", "automodel_0_7"}) {
    EXPECT_EQ(ReasonFor(batch, {.num_chunks = "2", .parity = mode}),
              "LENGTHS_INCONSISTENT");
  }
  const json chunks = Native(batch, {.num_chunks = "2", .auto_fill = true});
  EXPECT_EQ(chunks[0]["cu_seqlens"], Ints({0, 3, 5, 11}));
  EXPECT_EQ(chunks[0]["cu_seqlens_padded"], Ints({0, 4, 6, 12}));
  EXPECT_EQ(chunks[1]["cu_seqlens"], Ints({0, 4, 6, 9}));
  EXPECT_EQ(chunks[1]["cu_seqlens_padded"], Ints({0, 6, 9, 12}));
}

}  // namespace
}  // namespace cpfeed

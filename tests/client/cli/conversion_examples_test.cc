// Small batches converted by hand, through the native mode and the releases
// that the parity modes follow. x marks padding.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "client/cli/shard_flags.h"
#include "tests/client/cli/shard_runs.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::Batch;
using ::cpfeed::testing::CountingRows;
using ::cpfeed::testing::Floats;
using ::cpfeed::testing::Ints;
using ::cpfeed::testing::kFiller;
using ::cpfeed::testing::Native;
using ::cpfeed::testing::ReasonFor;
using ::cpfeed::testing::Release04;
using ::cpfeed::testing::Release07;
using ::nlohmann::json;

TEST(ConversionTest, RowsWithoutPaddingAreJoined) {
  const json batch = Batch(CountingRows(2, 6), {{6}, {6}}, {{6}, {6}});
  const json chunk = Native(batch)[0];
  EXPECT_EQ(chunk["ranks"][0]["input_ids"],
            Ints({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(chunk["cu_seqlens"], Ints({0, 6, 12}));
  EXPECT_EQ(chunk["cu_seqlens_padded"], Ints({0, 6, 12}));
  EXPECT_EQ(chunk["max_seqlen"], 6);
  EXPECT_EQ(chunk["ranks"][0]["padding_mask"], std::vector<bool>(12));
  EXPECT_EQ(Release04(batch)[0]["cu_seqlens"]["v"], Ints({0, 6, 12}));
  const json release = Release07(batch)[0];
  EXPECT_EQ(release["cu_seqlens"]["v"], Ints({0, 6, 12}));
  EXPECT_EQ(release["max_seqlen"]["v"], Ints({6}));
  EXPECT_FALSE(release.contains("cu_seqlens_padded"));
}

TEST(ConversionTest, PaddingInsideARowSeparatesTheTwoSums) {
  // 1 2 3 x 4 5 | 6 7 8 9 10 11
  json batch = Batch({{1, 2, 3, 99, 4, 5}, {6, 7, 8, 9, 10, 11}},
                     {{3, 2}, {6, kFiller}}, {{4, 2}, {6, kFiller}});
  batch["position_ids"] = {{0, 1, 2, 0, 0, 1}, {0, 1, 2, 3, 4, 5}};
  const Ints mask = {0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0};
  const json chunk = Native(batch)[0];
  EXPECT_EQ(chunk["ranks"][0]["position_ids"],
            Ints({0, 1, 2, 0, 0, 1, 0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(chunk["cu_seqlens"], Ints({0, 3, 5, 11}));
  EXPECT_EQ(chunk["cu_seqlens_padded"], Ints({0, 4, 6, 12}));
  EXPECT_EQ(chunk["max_seqlen"], 6);
  EXPECT_EQ(chunk["ranks"][0]["padding_mask"],
            std::vector<bool>(mask.begin(), mask.end()));
  const json old_release = Release04(batch)[0];
  EXPECT_EQ(old_release["cu_seqlens"]["v"], Ints({0, 4, 6, 12}));
  EXPECT_EQ(old_release["padding_mask"]["v"], Ints(12));  // No id is 0.
  const json release = Release07(batch)[0];
  EXPECT_EQ(release["cu_seqlens"]["v"], Ints({0, 3, 5, 11}));
  EXPECT_EQ(release["cu_seqlens_padded"]["v"], Ints({0, 4, 6, 12}));
  EXPECT_EQ(release["max_seqlen"]["v"], Ints({6}));
  EXPECT_EQ(release["padding_mask"]["v"], mask);
}

TEST(ConversionTest, EveryRowMayHavePadding) {
  const json batch = Batch({{1, 2, 3, 99, 4, 5}, {6, 7, 99, 8, 9, 10}},
                           {{3, 2}, {2, 3}}, {{4, 2}, {3, 3}});
  const json chunk = Native(batch)[0];
  EXPECT_EQ(chunk["cu_seqlens"], Ints({0, 3, 5, 7, 10}));
  EXPECT_EQ(chunk["cu_seqlens_padded"], Ints({0, 4, 6, 9, 12}));
  EXPECT_EQ(Release04(batch)[0]["cu_seqlens"]["v"], Ints({0, 4, 6, 9, 12}));
  const json release = Release07(batch)[0];
  EXPECT_EQ(release["cu_seqlens"]["v"], Ints({0, 3, 5, 7, 10}));
  EXPECT_EQ(release["cu_seqlens_padded"]["v"], Ints({0, 4, 6, 9, 12}));
}

TEST(ConversionTest, Release07AbsorbsPaddingAtTheEnd) {
  const json batch = Batch({{1, 2, 3, 0, 0, 0}}, {{3}}, {{6}});
  const json release = Release07(batch)[0];
  EXPECT_EQ(release["cu_seqlens"]["v"], Ints({0, 6}));
  EXPECT_FALSE(release.contains("cu_seqlens_padded"));
  EXPECT_EQ(release["max_seqlen"]["v"], Ints({6}));
  EXPECT_EQ(release["padding_mask"]["v"], Ints({0, 0, 0, 1, 1, 1}));
  const json chunk = Native(batch)[0];
  EXPECT_EQ(chunk["cu_seqlens"], Ints({0, 3}));
  EXPECT_EQ(chunk["cu_seqlens_padded"], Ints({0, 6}));
  EXPECT_EQ(chunk["max_seqlen"], 3);
  EXPECT_EQ(chunk["max_seqlen_padded"], 6);
}

// Upstream accepts slots that do not fill their row, and then loses count.
TEST(ConversionTest, SlotsThatDoNotFillTheRowAreRefused) {
  const json batch = Batch({{1, 2, 3, 0, 0, 0}}, {{3}}, {{3}});
  EXPECT_EQ(ReasonFor(batch, {}), "LENGTHS_INCONSISTENT");
  EXPECT_EQ(ReasonFor(batch, {.parity = "automodel_0_4"}),
            "LENGTHS_INCONSISTENT");
  EXPECT_EQ(ReasonFor(batch, {.parity = "automodel_0_7"}),
            "LENGTHS_INCONSISTENT");
  const json chunk = Native(batch, {.auto_fill = true})[0];
  EXPECT_EQ(chunk["cu_seqlens"], Ints({0, 3}));
  EXPECT_EQ(chunk["cu_seqlens_padded"], Ints({0, 6}));
}

TEST(ConversionTest, PaddingOfTwoRowsIsNotAtTheEndOnly) {
  const json batch =
      Batch({{1, 2, 3, 0}, {4, 5, 0, 0}}, {{3}, {2}}, {{4}, {4}});
  EXPECT_EQ(Release04(batch)[0]["cu_seqlens"]["v"], Ints({0, 4, 8}));
  const json release = Release07(batch)[0];
  EXPECT_EQ(release["cu_seqlens"]["v"], Ints({0, 3, 5}));
  EXPECT_EQ(release["cu_seqlens_padded"]["v"], Ints({0, 4, 8}));
  EXPECT_EQ(release["max_seqlen"]["v"], Ints({3}));
  EXPECT_EQ(release["padding_mask"]["v"], Ints({0, 0, 0, 1, 0, 0, 1, 1}));
}

// Widths are those of the boundaries that are sent: 576, not 112.
TEST(ConversionTest, AbsorbedTailCountsForTheWidest) {
  const json five = {112, 112, 112, 112, 112};
  const json five_padded = {112, 112, 112, 112, 576};
  json batch = Batch(CountingRows(1, 1024), json::array({five}),
                     json::array({five_padded}));
  json release = Release07(batch)[0];
  EXPECT_EQ(release["cu_seqlens"]["v"], Ints({0, 112, 224, 336, 448, 1024}));
  EXPECT_FALSE(release.contains("cu_seqlens_padded"));
  EXPECT_EQ(release["max_seqlen"]["v"], Ints({576}));
  EXPECT_EQ(Native(batch)[0]["max_seqlen"], 112);
  EXPECT_EQ(Native(batch)[0]["max_seqlen_padded"], 576);

  const json nine(9, 112);
  json nine_padded = nine;
  nine_padded[8] = 128;
  batch = Batch(CountingRows(1, 1024), json::array({nine}),
                json::array({nine_padded}));
  release = Release07(batch)[0];
  EXPECT_EQ(release["cu_seqlens"]["v"].back(), 1024);
  EXPECT_EQ(release["max_seqlen"]["v"], Ints({128}));

  batch =
      Batch(CountingRows(2, 1024), {nine, five}, {nine_padded, five_padded});
  release = Release07(batch, {.num_chunks = "2"})[0];
  EXPECT_EQ(release["max_seqlen"]["v"], Ints({128, 576}));
  EXPECT_EQ(
      release["cu_seqlens"]["v"],
      Ints({0, 112, 224, 336, 448, 560,  672,     784,     896,     1024,  //
            0, 112, 224, 336, 448, 1024, kFiller, kFiller, kFiller, kFiller}));
  EXPECT_FALSE(release.contains("cu_seqlens_padded"));
}

TEST(ConversionTest, EndTokenThatIsThePadTokenIsNoPadding) {
  const json batch = Batch({{7, 8, 2, 2, 9, 10, 2, 2}}, {{3, 3}}, {{4, 4}});
  const ShardFlags flags{.padding_token_id = "2"};
  EXPECT_EQ(Release07(batch, flags)[0]["padding_mask"]["v"],
            Ints({0, 0, 0, 1, 0, 0, 0, 1}));
  EXPECT_EQ(Release04(batch, flags)[0]["padding_mask"]["v"],
            Ints({0, 0, 1, 1, 0, 0, 1, 1}));
  EXPECT_EQ(Native(batch, flags)[0]["ranks"][0]["padding_mask"],
            std::vector<bool>({0, 0, 0, 1, 0, 0, 0, 1}));
}

TEST(ConversionTest, TokenZeroIsNoPaddingEither) {
  const json batch = Batch({{5, 0, 6, 99, 7, 8, 9, 99}}, {{3, 3}}, {{4, 4}});
  EXPECT_EQ(Release07(batch)[0]["padding_mask"]["v"],
            Ints({0, 0, 0, 1, 0, 0, 0, 1}));
  EXPECT_EQ(Release04(batch)[0]["padding_mask"]["v"],
            Ints({0, 1, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(Native(batch)[0]["ranks"][0]["padding_mask"],
            std::vector<bool>({0, 0, 0, 1, 0, 0, 0, 1}));
}

TEST(ConversionTest, MaskFollowsSlotsOfAnyKind) {
  // a a a x b b x x ......, the last slot filled up
  json chunk = Native(Batch(CountingRows(1, 12), {{3, 2}}, {{4, 4}}),
                      {.auto_fill = true})[0];
  EXPECT_EQ(chunk["ranks"][0]["padding_mask"],
            std::vector<bool>({0, 0, 0, 1, 0, 0, 1, 1, 1, 1, 1, 1}));
  chunk = Native(Batch(CountingRows(1, 8), {{3, 0, 2}}, {{4, 0, 4}}))[0];
  EXPECT_EQ(chunk["ranks"][0]["padding_mask"],
            std::vector<bool>({0, 0, 0, 1, 0, 0, 1, 1}));
}

TEST(ConversionTest, EmbeddingsKeepTheirWidth) {
  json batch = Batch(CountingRows(2, 6), {{6}, {6}}, {{6}, {6}});
  batch["input_ids"] = Floats({2, 6, 128});
  for (const json& release : {Release04(batch)[0], Release07(batch)[0]}) {
    EXPECT_EQ(release["input_ids"]["sh"], Ints({12, 128}));
    EXPECT_EQ(release["input_ids"]["dt"], "f32");
  }
  EXPECT_EQ(Native(batch)[0]["ranks"][0]["input_ids"][11][127], 12 * 128 - 1.0);

  json rows =
      Batch(CountingRows(4, 6), {{6}, {6}, {6}, {6}}, {{6}, {6}, {6}, {6}});
  rows["input_ids"] = Floats({4, 6, 128});
  EXPECT_EQ(Release07(rows, {.num_chunks = "2"})[0]["input_ids"]["sh"],
            Ints({2, 12, 128}));
}

TEST(ConversionTest, EmbeddingsOfWidthOneCollapseUpstreamOnly) {
  json batch = Batch(CountingRows(2, 6), {{6}, {6}}, {{6}, {6}});
  batch["input_ids"] = Floats({2, 6, 1});
  EXPECT_EQ(Release04(batch)[0]["input_ids"]["sh"], Ints({12}));
  EXPECT_EQ(Release07(batch)[0]["input_ids"]["sh"], Ints({12}));
  EXPECT_EQ(Native(batch)[0]["ranks"][0]["input_ids"][11], json({11.0}));
}

TEST(ConversionTest, PositionsMayHaveThreeComponents) {
  json batch = Batch(CountingRows(2, 4), {{4}, {4}}, {{4}, {4}});
  batch["position_ids"] = {{{0, 1, 2, 3}, {0, 1, 2, 3}},
                           {{4, 5, 6, 7}, {4, 5, 6, 7}},
                           {{8, 8, 8, 8}, {9, 9, 9, 9}}};
  const Ints values = {0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7,
                       4, 5, 6, 7, 8, 8, 8, 8, 9, 9, 9, 9};
  const json release = Release07(batch)[0];
  EXPECT_EQ(release["position_ids"]["sh"], Ints({3, 1, 8}));
  EXPECT_EQ(release["position_ids"]["v"], values);
  EXPECT_EQ(Release04(batch)[0]["position_ids"]["sh"], Ints({24}));
  const json rank = Native(batch)[0]["ranks"][0];
  ASSERT_EQ(rank["position_ids"].size(), 3);
  EXPECT_EQ(rank["position_ids"][2], Ints({8, 8, 8, 8, 9, 9, 9, 9}));
}

}  // namespace
}  // namespace cpfeed

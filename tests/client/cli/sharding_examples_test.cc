// Small batches sharded by hand, through the native mode and the releases that
// the parity modes follow. x marks padding.

#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "client/cli/shard_flags.h"
#include "tests/client/cli/shard_runs.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::Batch;
using ::cpfeed::testing::CountingRows;
using ::cpfeed::testing::Floats;
using ::cpfeed::testing::FourRows;
using ::cpfeed::testing::Ints;
using ::cpfeed::testing::kFiller;
using ::cpfeed::testing::Native;
using ::cpfeed::testing::ReasonFor;
using ::cpfeed::testing::Release04;
using ::cpfeed::testing::Release07;
using ::nlohmann::json;

TEST(ShardingTest, RankHoldsHeadAndTailOfEveryRow) {
  json batch = Batch(CountingRows(2, 4), {{4}, {4}}, {{4}, {4}});
  batch["labels"] = {{2, 3, 4, 5}, {6, 7, 8, 9}};
  const json chunk = Native(batch, {.cp_size = "2"})[0];
  EXPECT_EQ(chunk["ranks"][0]["input_ids"], Ints({1, 4, 5, 8}));
  EXPECT_EQ(chunk["ranks"][0]["labels"], Ints({2, 5, 6, 9}));
  EXPECT_EQ(chunk["ranks"][0]["position_ids"], Ints({0, 3, 0, 3}));
  EXPECT_EQ(chunk["ranks"][1]["input_ids"], Ints({2, 3, 6, 7}));
  EXPECT_EQ(chunk["ranks"][1]["labels"], Ints({3, 4, 7, 8}));
  EXPECT_EQ(chunk["ranks"][1]["position_ids"], Ints({1, 2, 1, 2}));
  for (const json& ranks : {Release04(batch, {.cp_size = "2"}),
                            Release07(batch, {.cp_size = "2"})}) {
    EXPECT_EQ(ranks[0]["input_ids"]["v"], Ints({1, 4, 5, 8}));
    EXPECT_EQ(ranks[1]["labels"]["v"], Ints({3, 4, 7, 8}));
    EXPECT_EQ(ranks[1]["cu_seqlens"]["v"], Ints({0, 4, 8}));
    EXPECT_EQ(ranks[1]["max_seqlen"]["v"], Ints({4}));
    EXPECT_EQ(ranks[1]["cp_size"], 2);
  }
  const ShardFlags two_chunks{.cp_size = "2", .num_chunks = "2"};
  const json ranks = Release07(batch, two_chunks);
  EXPECT_EQ(ranks[0]["input_ids"]["v"], Ints({1, 4, 5, 8}));
  EXPECT_EQ(ranks[0]["input_ids"]["sh"], Ints({2, 2}));
  EXPECT_EQ(ranks[1]["input_ids"]["v"], Ints({2, 3, 6, 7}));
  EXPECT_EQ(ranks[0]["cu_seqlens"]["v"], Ints({0, 4, 0, 4}));
  EXPECT_EQ(ranks[0]["max_seqlen"]["v"], Ints({4, 4}));
  EXPECT_EQ(Native(batch, two_chunks)[1]["ranks"][0]["input_ids"],
            Ints({5, 8}));
}

// 1 2 3 x 4 5 6 7 8 x x x x x x x, slots of 4 and 12.
json WidePack() {
  const json labels = {1, 2,    3,    -100, 4,    5,    6,    7,
                       8, -100, -100, -100, -100, -100, -100, -100};
  return {
      {"input_ids", {{1, 2, 3, 0, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0}}},
      {"labels", json::array({labels})},
      {"position_ids", {{0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}}},
      {"seq_lens", {{3, 5}}},
      {"seq_lens_padded", {{4, 12}}}};
}

TEST(ShardingTest, SlotsOfDifferentWidthAreCutOneByOne) {
  const Ints mask0 = {0, 1, 0, 0, 0, 1, 1, 1};
  const Ints mask1 = {0, 0, 0, 0, 1, 1, 1, 1};
  for (const json& ranks : {Release04(WidePack(), {.cp_size = "2"}),
                            Release07(WidePack(), {.cp_size = "2"})}) {
    EXPECT_EQ(ranks[0]["input_ids"]["v"], Ints({1, 0, 4, 5, 6, 0, 0, 0}));
    EXPECT_EQ(ranks[0]["labels"]["v"],
              Ints({1, -100, 4, 5, 6, -100, -100, -100}));
    EXPECT_EQ(ranks[0]["position_ids"]["v"], Ints({0, 3, 0, 1, 2, 9, 10, 11}));
    EXPECT_EQ(ranks[0]["padding_mask"]["v"], mask0);
    EXPECT_EQ(ranks[1]["input_ids"]["v"], Ints({2, 3, 7, 8, 0, 0, 0, 0}));
    EXPECT_EQ(ranks[1]["position_ids"]["v"], Ints({1, 2, 3, 4, 5, 6, 7, 8}));
    EXPECT_EQ(ranks[1]["padding_mask"]["v"], mask1);
    EXPECT_EQ(ranks[1]["cu_seqlens"]["v"], Ints({0, 4, 16}));
    EXPECT_EQ(ranks[1]["max_seqlen"]["v"], Ints({12}));
  }
  EXPECT_EQ(Release04(WidePack())[0]["cu_seqlens"]["v"], Ints({0, 4, 16}));
  const json one_rank = Release07(WidePack())[0];
  EXPECT_EQ(one_rank["cu_seqlens"]["v"], Ints({0, 3, 8}));
  EXPECT_EQ(one_rank["cu_seqlens_padded"]["v"], Ints({0, 4, 16}));
  EXPECT_EQ(one_rank["max_seqlen"]["v"], Ints({5}));
  const json chunk = Native(WidePack(), {.cp_size = "2"})[0];
  EXPECT_EQ(chunk["ranks"][0]["input_ids"], Ints({1, 0, 4, 5, 6, 0, 0, 0}));
  EXPECT_EQ(chunk["ranks"][0]["padding_mask"],
            std::vector<bool>(mask0.begin(), mask0.end()));
  EXPECT_EQ(chunk["ranks"][0]["cu_seqlens"], Ints({0, 1, 4}));
  EXPECT_EQ(chunk["ranks"][1]["cu_seqlens"], Ints({0, 2, 4}));
  EXPECT_EQ(chunk["ranks"][1]["cu_seqlens_padded"], Ints({0, 2, 8}));
}

TEST(ShardingTest, PaddingAtTheEndFallsToBothRanks) {
  const json batch = Batch({{1, 2, 3, 4, 5, 0, 0, 0}}, {{5}}, {{8}});
  for (const json& ranks : {Release04(batch, {.cp_size = "2"}),
                            Release07(batch, {.cp_size = "2"})}) {
    EXPECT_EQ(ranks[0]["input_ids"]["v"], Ints({1, 2, 0, 0}));
    EXPECT_EQ(ranks[0]["padding_mask"]["v"], Ints({0, 0, 1, 1}));
    EXPECT_EQ(ranks[1]["input_ids"]["v"], Ints({3, 4, 5, 0}));
    EXPECT_EQ(ranks[1]["padding_mask"]["v"], Ints({0, 0, 0, 1}));
    EXPECT_EQ(ranks[0]["cu_seqlens"]["v"], Ints({0, 8}));
    EXPECT_EQ(ranks[0]["max_seqlen"]["v"], Ints({8}));
  }
  const json chunk = Native(batch, {.cp_size = "2"})[0];
  EXPECT_EQ(chunk["ranks"][1]["padding_mask"], std::vector<bool>({0, 0, 0, 1}));
  EXPECT_EQ(chunk["ranks"][1]["cu_seqlens"], Ints({0, 3}));
}

TEST(ShardingTest, ChunksAreShardedOneByOne) {
  const ShardFlags flags{.cp_size = "2", .num_chunks = "2"};
  const Ints rank0 = {1,  4,  5,  8,  11, 12, 17, 18,
                      21, 22, 27, 28, 31, 32, 37, 38};
  const Ints rank1 = {2,  3,  6,  7,  13, 14, 15, 16,
                      23, 24, 25, 26, 33, 34, 35, 36};
  for (const json& ranks :
       {Release04(FourRows(), flags), Release07(FourRows(), flags)}) {
    EXPECT_EQ(ranks[0]["input_ids"]["sh"], Ints({2, 8}));
    EXPECT_EQ(ranks[0]["input_ids"]["v"], rank0);
    EXPECT_EQ(ranks[1]["input_ids"]["v"], rank1);
    EXPECT_EQ(ranks[0]["cu_seqlens"]["v"],
              Ints({0, 4, 8, 16, 0, 8, 16, kFiller}));
  }
  Ints mask0(16);
  mask0[3] = mask0[8 + 2] = mask0[8 + 3] = 1;
  const json ranks = Release07(FourRows(), flags);
  EXPECT_EQ(ranks[0]["padding_mask"]["v"], mask0);
  EXPECT_EQ(ranks[1]["padding_mask"]["v"], Ints(16));
  const json chunks = Native(FourRows(), flags);
  EXPECT_EQ(chunks[0]["ranks"][0]["input_ids"],
            Ints(rank0.begin(), rank0.begin() + 8));
  EXPECT_EQ(chunks[1]["ranks"][1]["input_ids"],
            Ints(rank1.begin() + 8, rank1.end()));
  EXPECT_EQ(chunks[1]["ranks"][0]["padding_mask"],
            std::vector<bool>({0, 0, 1, 1, 0, 0, 0, 0}));
}

// Rows without lengths: 1 2 3 4 5 6 x x over two ranks.
TEST(ShardingTest, RowIsPaddedToDivide) {
  const json batch = {{"input_ids", {{1, 2, 3, 4, 5, 6}}},
                      {"labels", {{2, 3, 4, 5, 6, 7}}},
                      {"values", {{0, 1, 2, 3, 4, 5}}}};
  ShardFlags flags{.cp_size = "2"};
  EXPECT_EQ(ReasonFor(batch, flags), "NOT_DIVISIBLE");
  flags.auto_pad = true;
  const json chunk = Native(batch, flags)[0];
  EXPECT_EQ(chunk["layout"], "HEAD_TAIL_PER_ROW");
  const json rank = chunk["ranks"][0];
  EXPECT_EQ(rank["index"], Ints({0, 1, 6, 7}));
  EXPECT_EQ(rank["source_index"], Ints({0, 1, -1, -1}));
  EXPECT_EQ(rank["input_ids"], Ints({1, 2, 0, 0}));
  EXPECT_EQ(rank["labels"], Ints({2, 3, -100, -100}));
  EXPECT_EQ(rank["values"], Ints({0, 1, 0, 0}));
  EXPECT_EQ(rank["position_ids"], Ints({0, 1, 6, 7}));
  EXPECT_EQ(rank["padding_mask"], std::vector<bool>({0, 0, 1, 1}));
  EXPECT_EQ(chunk["ranks"][1]["input_ids"], Ints({3, 4, 5, 6}));
}

TEST(ShardingTest, ContiguousShardsAreFilledByTheirKind) {
  const json batch = {{"input_ids", {{1, 2, 3}}},
                      {"labels", {{1, 2, 3}}},
                      {"position_ids", {{0, 1, 2}}},
                      {"document", {{1, 1, 2}}}};
  const json rank = Native(batch, {.cp_size = "2",
                                   .layout = "contiguous",
                                   .padding_token_id = "99",
                                   .auto_pad = true})[0]["ranks"][1];
  EXPECT_EQ(rank["input_ids"], Ints({3, 99}));
  EXPECT_EQ(rank["labels"], Ints({3, -100}));
  EXPECT_EQ(rank["position_ids"], Ints({2, 3}));
  EXPECT_EQ(rank["document"], Ints({2, 0}));
}

// What a gradient of the sum of one rank's embeddings is: 1 where it holds the
// token, else 0.
TEST(ShardingTest, EmbeddingsGoWhereTheirTokensGo) {
  json batch = {{"input_ids", Floats({1, 8, 1})},
                {"labels", CountingRows(1, 8)}};
  const json rank = Native(batch, {.cp_size = "2"})[0]["ranks"][1];
  EXPECT_EQ(rank["input_ids"], json({{2.0}, {3.0}, {4.0}, {5.0}}));
  Ints gradient(8);
  for (const int64_t position : rank["index"]) gradient[position] += 1;
  EXPECT_EQ(gradient, Ints({0, 0, 1, 1, 1, 1, 0, 0}));
}

}  // namespace
}  // namespace cpfeed

// The published examples of the THD dual-chunk partition, with what each rank's
// prefix sums must be.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/plan/layout_spec.h"
#include "core/plan/shard_plan.h"
#include "tests/core/plan/packs.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::Numbers;
using ::cpfeed::testing::OneRow;

struct RankExample {
  std::string index;
  std::vector<int32_t> cu_seqlens;  // Local, of real rows.
};

struct Example {
  std::string name;
  int cp_size;
  std::vector<int64_t> real;
  std::vector<int64_t> padded;
  std::vector<int32_t> cu_seqlens_padded;  // Local, the same on all ranks.
  std::vector<RankExample> ranks;
};

class DualChunkExampleTest : public ::testing::TestWithParam<Example> {};

TEST_P(DualChunkExampleTest, RanksHoldPositionsAndPrefixSums) {
  const Example& example = GetParam();
  const auto plan =
      PlanShards(OneRow(example.real, example.padded),
                 {.layout = Layout::kHeadTailPerSequence}, example.cp_size);
  ASSERT_THAT(plan, IsOk());
  ASSERT_EQ(plan->ranks.size(), example.ranks.size());
  for (int rank = 0; rank < example.cp_size; ++rank) {
    SCOPED_TRACE(::testing::Message() << "rank " << rank);
    EXPECT_EQ(LocalIndex(*plan, rank), Numbers(example.ranks[rank].index));
    const LocalCuSeqlens local = ComputeLocalCuSeqlens(*plan, rank);
    EXPECT_EQ(local.cu_seqlens, example.ranks[rank].cu_seqlens);
    EXPECT_EQ(local.cu_seqlens_padded, example.cu_seqlens_padded);
  }
}

const std::vector<Example>& Examples() {
  static const auto* const kExamples = new std::vector<Example>{
      {"E1", 1, {8}, {8}, {0, 8}, {{"0..7", {0, 8}}}},
      {"E2", 2, {8}, {8}, {0, 4}, {{"0 1 6 7", {0, 4}}, {"2..5", {0, 4}}}},
      {"E3",
       2,
       {8, 4},
       {8, 4},
       {0, 4, 6},
       {{"0 1 6 7 8 11", {0, 4, 6}}, {"2 3 4 5 9 10", {0, 4, 6}}}},
      {"E4",
       2,
       {8, 8},
       {8, 8},
       {0, 4, 8},
       {{"0 1 6 7 8 9 14 15", {0, 4, 8}}, {"2..5 10..13", {0, 4, 8}}}},
      {"E5",
       4,
       {8, 8, 8, 16},
       {8, 8, 8, 16},
       {0, 2, 4, 6, 10},
       {{"0 7 8 15 16 23 24 25 38 39", {0, 2, 4, 6, 10}},
        {"1 6 9 14 17 22 26 27 36 37", {0, 2, 4, 6, 10}},
        {"2 5 10 13 18 21 28 29 34 35", {0, 2, 4, 6, 10}},
        {"3 4 11 12 19 20 30 31 32 33", {0, 2, 4, 6, 10}}}},
      {"E6",
       8,
       {16},
       {16},
       {0, 2},
       {{"0 15", {0, 2}},
        {"1 14", {0, 2}},
        {"2 13", {0, 2}},
        {"3 12", {0, 2}},
        {"4 11", {0, 2}},
        {"5 10", {0, 2}},
        {"6 9", {0, 2}},
        {"7 8", {0, 2}}}},
      {"E7", 2, {7}, {8}, {0, 4}, {{"0 1 6 7", {0, 3}}, {"2..5", {0, 4}}}},
      // Both second halves are padding.
      {"E8",
       2,
       {2, 3},
       {4, 4},
       {0, 2, 4},
       {{"0 3 4 7", {0, 1, 2}}, {"1 2 5 6", {0, 1, 3}}}},
      {"E9",
       4,
       {5, 3, 11},
       {8, 8, 16},
       {0, 2, 4, 8},
       {{"0 7 8 15 16 17 30 31", {0, 1, 2, 4}},
        {"1 6 9 14 18 19 28 29", {0, 1, 2, 4}},
        {"2 5 10 13 20 21 26 27", {0, 1, 2, 5}},
        {"3 4 11 12 22..25", {0, 2, 2, 6}}}},
      {"E10",
       8,
       {1, 17},
       {16, 32},
       {0, 2, 6},
       {{"0 15 16 17 46 47", {0, 1, 3}},
        {"1 14 18 19 44 45", {0, 0, 2}},
        {"2 13 20 21 42 43", {0, 0, 2}},
        {"3 12 22 23 40 41", {0, 0, 2}},
        {"4 11 24 25 38 39", {0, 0, 2}},
        {"5 10 26 27 36 37", {0, 0, 2}},
        {"6 9 28 29 34 35", {0, 0, 2}},
        {"7 8 30..33", {0, 0, 3}}}},
      {"E11",
       2,
       {3, 0, 6},
       {4, 0, 8},
       {0, 2, 2, 6},
       {{"0 3 4 5 10 11", {0, 1, 1, 3}}, {"1 2 6..9", {0, 2, 2, 6}}}},
      {"E12",
       4,
       {698},
       {704},
       {0, 176},
       {{"0..87 616..703", {0, 170}},
        {"88..175 528..615", {0, 176}},
        {"176..263 440..527", {0, 176}},
        {"264..351 352..439", {0, 176}}}},
      {"E13",
       2,
       {9, 8, 8, 12, 8, 12},
       {12, 8, 8, 12, 8, 12},
       {0, 6, 10, 14, 20, 24, 30},
       {{"0..2 9..11 12 13 18 19 20 21 26 27 28..30 37..39 40 41 46 47 48..50 "
         "57..59",
         {0, 3, 7, 11, 17, 21, 27}},
        {"3..8 14..17 22..25 31..36 42..45 51..56",
         {0, 6, 10, 14, 20, 24, 30}}}},
  };
  return *kExamples;
}

INSTANTIATE_TEST_SUITE_P(Published, DualChunkExampleTest,
                         ::testing::ValuesIn(Examples()),
                         [](const auto& info) { return info.param.name; });

// With h = slot / (2 * cp_size) a rank holds this many real tokens, and never
// cu_seqlens / cp_size.
TEST(ComputeLocalCuSeqlensTest, FollowsTheClampFormula) {
  constexpr int kCpSize = 3;
  for (int64_t real = 0; real <= 24; ++real) {
    const auto plan =
        PlanShards(OneRow({real}, {24}),
                   {.layout = Layout::kHeadTailPerSequence}, kCpSize);
    ASSERT_THAT(plan, IsOk());
    for (int rank = 0; rank < kCpSize; ++rank) {
      const int64_t head = std::clamp<int64_t>(real - rank * 4, 0, 4);
      const int64_t tail = std::clamp<int64_t>(real - (5 - rank) * 4, 0, 4);
      EXPECT_EQ(ComputeLocalCuSeqlens(*plan, rank).cu_seqlens.back(),
                head + tail)
          << "real " << real << ", rank " << rank;
    }
  }
}

}  // namespace
}  // namespace cpfeed

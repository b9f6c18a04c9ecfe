#include "core/plan/shard_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/plan/layout.h"
#include "core/plan/layout_spec.h"
#include "core/plan/rank_plan.h"
#include "tests/core/plan/packs.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::Numbers;
using ::cpfeed::testing::OneRow;
using ::cpfeed::testing::Rows;
using ::cpfeed::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<ShardPlan> Plan(const PackedLengths& lengths, Layout layout,
                               int cp_size) {
  return PlanShards(lengths, {.layout = layout}, cp_size);
}

TEST(PlanShardsTest, CutsIntoMaximalSegments) {
  // Position:  0 1 2 3 4 5 6 7 | 8 9 10 11
  // Holder:    0 0 1 1 1 1 0 0 | 0 1  1  0
  const auto plan =
      Plan(OneRow({8, 3}, {8, 4}), Layout::kHeadTailPerSequence, 2);
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(plan->ranks[0].segments,
              ElementsAre(Segment{0, 0, 2}, Segment{0, 6, 2}, Segment{1, 0, 1},
                          Segment{1, 3, 1}));
  EXPECT_THAT(plan->ranks[1].segments,
              ElementsAre(Segment{0, 2, 4}, Segment{1, 1, 2}));
  EXPECT_EQ(plan->ranks[0].num_tokens, 6);
  EXPECT_EQ(plan->ranks[1].num_tokens, 6);
}

TEST(PlanShardsTest, UnspecifiedIsHeadTailPerSequence) {
  const auto plan = Plan(OneRow({8}), Layout::kUnspecified, 2);
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->spec.layout, Layout::kHeadTailPerSequence);
}

// One worked example: which positions each rank holds, in its order.
struct Example {
  std::string name;
  Layout layout;
  int cp_size;
  PackedLengths lengths;
  std::vector<std::string> index;  // For each rank.
};

class PlanShardsExampleTest : public ::testing::TestWithParam<Example> {};

TEST_P(PlanShardsExampleTest, RanksHoldThePositions) {
  const Example& example = GetParam();
  const auto plan = Plan(example.lengths, example.layout, example.cp_size);
  ASSERT_THAT(plan, IsOk());
  ASSERT_EQ(plan->ranks.size(), example.index.size());
  for (int rank = 0; rank < example.cp_size; ++rank) {
    EXPECT_EQ(LocalIndex(*plan, rank), Numbers(example.index[rank]))
        << "rank " << rank;
  }
}

constexpr Layout kPerSequence = Layout::kHeadTailPerSequence;
constexpr Layout kPerRow = Layout::kHeadTailPerRow;

INSTANTIATE_TEST_SUITE_P(
    HeadTailPerSequence, PlanShardsExampleTest,
    ::testing::ValuesIn(std::vector<Example>{
        {"FourSequencesOnFour",
         kPerSequence,
         4,
         OneRow({8, 8, 8, 16}),
         {"0 7 8 15 16 23 24 25 38 39", "1 6 9 14 17 22 26 27 36 37",
          "2 5 10 13 18 21 28 29 34 35", "3 4 11 12 19 20 30..33"}},
        {"TwoOnTwo",
         kPerSequence,
         2,
         OneRow({8, 8}),
         {"0 1 6..9 14 15", "2..5 10..13"}},
        {"TwelveOnTwo",
         kPerSequence,
         2,
         OneRow({12}),
         {"0 1 2 9 10 11", "3..8"}},
        {"SixteenOnFour",
         kPerSequence,
         4,
         OneRow({16}),
         {"0 1 14 15", "2 3 12 13", "4 5 10 11", "6 7 8 9"}},
        {"EightAndSixteenOnFour",
         kPerSequence,
         4,
         OneRow({8, 16}),
         {"0 7 8 9 22 23", "1 6 10 11 20 21", "2 5 12 13 18 19",
          "3 4 14 15 16 17"}},
        {"ThreeOnThree",
         kPerSequence,
         3,
         OneRow({12, 12, 24}),
         {"0 1 10 11 12 13 22 23 24..27 44..47",
          "2 3 8 9 14 15 20 21 28..31 40..43", "4..7 16..19 32..39"}},
        {"EmptySequenceBetween",
         kPerSequence,
         2,
         OneRow({4, 0, 4}),
         {"0 3 4 7", "1 2 5 6"}},
        {"DocumentsOf4And12",
         kPerSequence,
         2,
         OneRow({4, 12}),
         {"0 3 4 5 6 13 14 15", "1 2 7..12"}},
        {"DocumentsOf4And8And4",
         kPerSequence,
         2,
         OneRow({4, 8, 4}),
         {"0 3 4 5 10 11 12 15", "1 2 6 7 8 9 13 14"}},
    }),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    HeadTailPerRow, PlanShardsExampleTest,
    ::testing::ValuesIn(std::vector<Example>{
        {"EightOnTwo", kPerRow, 2, OneRow({8}), {"0 1 6 7", "2..5"}},
        {"EightOnFour", kPerRow, 4, OneRow({8}), {"0 7", "1 6", "2 5", "3 4"}},
        {"TwelveOnThree",
         kPerRow,
         3,
         OneRow({12}),
         {"0 1 10 11", "2 3 8 9", "4..7"}},
        {"SixteenOnFour",
         kPerRow,
         4,
         OneRow({16}),
         {"0 1 14 15", "2 3 12 13", "4 5 10 11", "6..9"}},
        {"TwentyFourOnFour",
         kPerRow,
         4,
         OneRow({24}),
         {"0..2 21..23", "3..5 18..20", "6..8 15..17", "9..14"}},
        {"CutsThroughSequences",
         kPerRow,
         2,
         OneRow({3, 5}),
         {"0 1 6 7", "2..5"}},
        {"EachRowByItself",
         kPerRow,
         2,
         Rows({{1, 3}, {8}}),
         {"0 3 4 5 10 11", "1 2 6..9"}},
        {"RowsOfNothing", kPerRow, 2, Rows({{}, {4}, {0, 0}}), {"0 3", "1 2"}},
    }),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(Others, PlanShardsExampleTest,
                         ::testing::ValuesIn(std::vector<Example>{
                             {"ContiguousOnThree",
                              Layout::kContiguous,
                              3,
                              OneRow({5, 0, 7}),
                              {"0..3", "4..7", "8..11"}},
                             {"StripedOnThree",
                              Layout::kStriped,
                              3,
                              OneRow({4, 2}),
                              {"0 3", "1 4", "2 5"}},
                         }),
                         [](const auto& info) { return info.param.name; });

TEST(PlanShardsTest, UnevenContiguousRoundsDown) {
  const auto plan = PlanShards(
      OneRow({7}), {.layout = Layout::kContiguous, .uneven = true}, 3);
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(LocalIndex(*plan, 0), Numbers("0 1"));
  EXPECT_EQ(LocalIndex(*plan, 1), Numbers("2 3"));
  EXPECT_EQ(LocalIndex(*plan, 2), Numbers("4..6"));
}

TEST(PlanShardsTest, UnevenContiguousLeavesRanksEmptyWhereTokensAreFew) {
  const auto plan = PlanShards(
      OneRow({2}), {.layout = Layout::kContiguous, .uneven = true}, 4);
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(plan->ranks[0].segments, ElementsAre());
  EXPECT_EQ(LocalIndex(*plan, 1), Numbers("0"));
  EXPECT_THAT(plan->ranks[2].segments, ElementsAre());
  EXPECT_EQ(LocalIndex(*plan, 3), Numbers("1"));
}

TEST(PlanShardsTest, StripesMayBeWide) {
  const auto plan = PlanShards(
      OneRow({5, 7}), {.layout = Layout::kStriped, .stripe_width = 3}, 2);
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(LocalIndex(*plan, 0), Numbers("0..2 6..8"));
  EXPECT_EQ(LocalIndex(*plan, 1), Numbers("3..5 9..11"));
}

class OneRankTest : public ::testing::TestWithParam<Layout> {};

TEST_P(OneRankTest, HoldsEverythingWhateverTheLengths) {
  const auto plan = Plan(OneRow({3, 0, 7}, {3, 0, 8}), GetParam(), 1);
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(plan->ranks[0].segments,
              ElementsAre(Segment{0, 0, 3}, Segment{2, 0, 8}));
  EXPECT_EQ(LocalIndex(*plan, 0), Numbers("0..10"));
}

INSTANTIATE_TEST_SUITE_P(All, OneRankTest, ::testing::ValuesIn(AllLayouts()),
                         [](const auto& info) {
                           return std::string(LayoutName(info.param));
                         });

TEST(PlanShardsTest, ChunkWithoutTokensIsLegal) {
  const auto plan = Plan(OneRow({0, 0}), kPerSequence, 4);
  ASSERT_THAT(plan, IsOk());
  for (const RankPlan& rank : plan->ranks) EXPECT_EQ(rank.num_tokens, 0);
}

// The digest is a contract between processes: these are its bytes.
// 20,000 slots of 8192 tokens in 8192 chunks each: two gigabytes of segments.
TEST(PlanShardsTest, EnormousPlansAreRefusedBeforeTheyAreMade) {
  const auto plan = PlanShards(OneRow(std::vector<int64_t>(20'000, 8192)),
                               {.layout = Layout::kHeadTailPerSequence}, 4096);
  EXPECT_THAT(plan, StatusIs(absl::StatusCode::kResourceExhausted,
                             HasSubstr("plan of 20000 sequences for 4096 ranks "
                                       "may have")));
  EXPECT_THAT(plan, HasReason(kBatchTooLarge));
}

TEST(PlanDigestTest, IsOverTheDocumentedNumbers) {
  const auto plan =
      Plan(OneRow({8, 3}, {8, 4}), Layout::kHeadTailPerSequence, 2);
  ASSERT_THAT(plan, IsOk());
  const std::vector<int64_t> numbers = {1, 3, 2, 2,  // format, layout, cp, N
                                        8, 3, 8, 4,  // real and slot lengths
                                        4, 0, 0, 2, 0, 6, 2,
                                        1, 0, 1, 1, 3, 1,      // rank 0
                                        2, 0, 2, 4, 1, 1, 2};  // rank 1
  EXPECT_EQ(plan->digest,
            Digest(numbers.data(), numbers.size() * sizeof(int64_t)));
  EXPECT_EQ(PlanDigest(*plan), plan->digest);
}

TEST(PlanDigestTest, HoldsTheParametersOfItsLayoutOnly) {
  const PackedLengths lengths = OneRow({512});
  const auto digest = [&](const LayoutSpec& spec) {
    return PlanShards(lengths, spec, 2)->digest;
  };
  const LayoutSpec greedy = {.layout = Layout::kChunkGreedy};
  LayoutSpec other_stripe = greedy;
  other_stripe.stripe_width = 4;
  EXPECT_EQ(digest(greedy), digest(other_stripe));
  const LayoutSpec contiguous = {.layout = Layout::kContiguous};
  LayoutSpec uneven = contiguous;
  uneven.uneven = true;
  EXPECT_NE(digest(contiguous), digest(uneven));  // Same segments.
}

TEST(PlanDigestTest, IsOverManySegmentsTheSame) {
  const auto plan = Plan(OneRow({6000}), Layout::kStriped, 2);
  ASSERT_THAT(plan, IsOk());
  std::vector<int64_t> numbers = {1, 4, 1, 2, 1, 6000, 6000};
  for (int64_t rank = 0; rank < 2; ++rank) {
    numbers.push_back(3000);
    for (int64_t i = 0; i < 3000; ++i) {
      numbers.insert(numbers.end(), {0, 2 * i + rank, 1});
    }
  }
  EXPECT_EQ(plan->digest,
            Digest(numbers.data(), numbers.size() * sizeof(int64_t)));
}

// The worst of wishes must be known before memory is taken for it.
TEST(MaxSegmentsTest, IsNotExceeded) {
  for (const Layout layout : AllLayouts()) {
    const PackedLengths lengths = Rows({{512, 512, 0}, {1024}});
    const LayoutSpec spec = {.layout = layout};
    const auto plan = PlanShards(lengths, spec, 4);
    ASSERT_THAT(plan, IsOk());
    int64_t num_segments = 0;
    for (const RankPlan& rank : plan->ranks) {
      num_segments += static_cast<int64_t>(rank.segments.size());
    }
    EXPECT_LE(num_segments, MaxSegments(lengths, spec, 4))
        << LayoutName(layout);
    EXPECT_LE(MaxSegments(lengths, spec, 4), 2048) << LayoutName(layout);
  }
}

}  // namespace
}  // namespace cpfeed

#include "core/plan/plan_verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "core/plan/layout.h"
#include "core/plan/layout_spec.h"
#include "core/plan/rank_plan.h"
#include "core/plan/shard_plan.h"
#include "tests/core/plan/packs.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::OneRow;
using ::cpfeed::testing::PackFor;
using ::cpfeed::testing::StatusIs;
using ::cpfeed::testing::TestSpecs;
using ::testing::HasSubstr;
using ::testing::Not;

// Rank 0: (0, 0, 2) (0, 6, 2) (1, 0, 2) (1, 6, 2); rank 1: (0, 2, 4) (1, 2, 4).
ShardPlan GoodPlan() { return *PlanShards(OneRow({8, 7}, {8, 8}), {}, 2); }

TEST(VerifyPlanTest, AcceptsThePlansOfAllLayouts) {
  std::mt19937 random(21);
  for (const LayoutSpec& spec : TestSpecs()) {
    for (const int cp_size : {1, 2, 3, 4, 7, 16}) {
      for (int i = 0; i < 20; ++i) {
        const auto plan =
            PlanShards(PackFor(spec, cp_size, random), spec, cp_size);
        ASSERT_THAT(plan, IsOk());
        EXPECT_THAT(VerifyPlan(*plan), IsOk()) << LayoutName(spec.layout);
      }
    }
  }
}

TEST(VerifyPlanTest, AcceptsUnevenContiguousPlans) {
  for (int64_t tokens = 0; tokens < 30; ++tokens) {
    for (const int cp_size : {1, 2, 5, 9}) {
      const auto plan =
          PlanShards(OneRow({tokens / 2, tokens - tokens / 2}),
                     {.layout = Layout::kContiguous, .uneven = true}, cp_size);
      ASSERT_THAT(plan, IsOk());
      EXPECT_THAT(VerifyPlan(*plan), IsOk());
    }
  }
}

struct Fault {
  std::string name;
  std::function<void(ShardPlan&)> inject;
  std::string message;
};

class FaultTest : public ::testing::TestWithParam<Fault> {};

// A digest that fits the broken plan does not hide the fault.
TEST_P(FaultTest, IsCaughtAndNamedWhateverTheDigest) {
  ShardPlan plan = GoodPlan();
  GetParam().inject(plan);
  EXPECT_THAT(VerifyPlan(plan), StatusIs(absl::StatusCode::kInternal,
                                         HasSubstr(GetParam().message)));
  plan.digest = PlanDigest(plan);
  EXPECT_THAT(VerifyPlan(plan), StatusIs(absl::StatusCode::kInternal,
                                         HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    All, FaultTest,
    ::testing::ValuesIn(std::vector<Fault>{
        {"RowDropped",
         [](ShardPlan& plan) {
           --plan.ranks[1].segments[1].length;
           --plan.ranks[1].num_tokens;
         },
         "sequence 1: position 5 is held by no rank; must be held once"},
        {"SegmentDropped",
         [](ShardPlan& plan) {
           plan.ranks[0].segments.pop_back();
           plan.ranks[0].num_tokens -= 2;
         },
         "sequence 1: position 6 is held by no rank"},
        {"RowDoubled",
         [](ShardPlan& plan) {
           --plan.ranks[1].segments[0].begin;
           ++plan.ranks[1].segments[0].length;
           ++plan.ranks[1].num_tokens;
         },
         "rank 1: sequence 0: position 1 is held twice; must be held once"},
        {"RowMoved",
         [](ShardPlan& plan) {
           --plan.ranks[0].segments[0].length;
           --plan.ranks[0].num_tokens;
           --plan.ranks[1].segments[0].begin;
           ++plan.ranks[1].segments[0].length;
           ++plan.ranks[1].num_tokens;
         },
         "rank 1: sequence 0: position 1 is rank 0's by the layout's rule"},
        {"SequencesSwapped",
         [](ShardPlan& plan) {
           std::swap(plan.ranks[0].segments, plan.ranks[1].segments);
         },
         "rank 0: sequence 0: position 2 is rank 1's by the layout's rule"},
        {"BoundaryOffByOne",
         [](ShardPlan& plan) { ++plan.ranks[1].segments[1].length; },
         "rank 1: sequence 1: position 6 is held twice; must be held once"},
        {"BehindTheSlot",
         [](ShardPlan& plan) { ++plan.ranks[0].segments[3].length; },
         "rank 0: sequence 1: 3 rows from position 6; must be at least 1 "
         "inside [0, 8)"},
        {"BeforeTheSlot",
         [](ShardPlan& plan) { plan.ranks[0].segments[0].begin = -1; },
         "rank 0: sequence 0: 2 rows from position -1"},
        {"NoSuchSequence",
         [](ShardPlan& plan) { plan.ranks[0].segments[3].sequence = 2; },
         "rank 0: sequence is 2; must be in [0, 2)"},
        {"EmptySegment",
         [](ShardPlan& plan) {
           plan.ranks[1].segments.push_back({1, 6, 0});
         },
         "rank 1: sequence 1: 0 rows from position 6"},
        {"NotMaximal",
         [](ShardPlan& plan) {
           plan.ranks[1].segments[1].length = 2;
           plan.ranks[1].segments.push_back({1, 4, 2});
         },
         "rank 1: sequence 1: position 4 starts a segment that touches"},
        {"Descending",
         [](ShardPlan& plan) {
           std::swap(plan.ranks[0].segments[0], plan.ranks[0].segments[1]);
         },
         "rank 0: sequence 0: position 0 comes behind sequence 0 position 7; "
         "must ascend"},
        {"SequencesDescending",
         [](ShardPlan& plan) {
           std::swap(plan.ranks[1].segments[0], plan.ranks[1].segments[1]);
         },
         "rank 1: sequence 0: position 2 comes behind sequence 1 position 5"},
        {"WrongCount", [](ShardPlan& plan) { ++plan.ranks[1].num_tokens; },
         "rank 1: num_tokens is 9; must be 8 rows of segments and 0 pad rows"},
        {"PadRows",
         [](ShardPlan& plan) {
           ++plan.ranks[1].num_tokens;
           ++plan.ranks[1].pad_rows;
         },
         "rank 1: 1 pad rows; must be 0"},
        {"RankMissing", [](ShardPlan& plan) { plan.ranks.pop_back(); },
         "1 ranks; must be as many as cp_size, 2"},
        {"LengthsChanged", [](ShardPlan& plan) { plan.lengths.padded[0] = 4; },
         "row 0: sequence 0: real length is 8; must be at most its padded "
         "length, 4"},
        {"LengthsIndivisible",
         [](ShardPlan& plan) { plan.lengths.padded[0] = 9; },
         "must be a multiple of 4"},
        {"OtherLayout",
         [](ShardPlan& plan) { plan.spec.layout = Layout::kContiguous; },
         "rank 0: sequence 1: position 0 is rank 1's by the layout's rule"},
    }),
    [](const auto& info) { return info.param.name; });

TEST(VerifyPlanTest, NamesBothDigests) {
  ShardPlan plan = GoodPlan();
  plan.digest ^= 1;
  EXPECT_THAT(
      VerifyPlan(plan),
      StatusIs(absl::StatusCode::kInternal,
               HasSubstr(absl::StrFormat("digest is %016x; must be %016x",
                                         plan.digest, plan.digest ^ 1))));
}

TEST(VerifyPlanTest, RefusesAnUnresolvedLayout) {
  ShardPlan plan = GoodPlan();
  plan.spec.layout = Layout::kUnspecified;
  EXPECT_THAT(VerifyPlan(plan), StatusIs(absl::StatusCode::kInternal,
                                         HasSubstr("layout is unspecified")));
}

TEST(VerifyPlanTest, DigestCoversRealLengths) {
  ShardPlan plan = GoodPlan();
  --plan.lengths.real[0];
  EXPECT_THAT(VerifyPlan(plan),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("digest is ")));
}

// Layouts without a closed formula: a moved row unbalances the ranks.
TEST(VerifyPlanTest, CatchesAMovedRowOfAnyLayout) {
  ShardPlan plan = *PlanShards(OneRow({1024}), {.layout = Layout::kPtrr}, 2);
  // Rank 0: [0, 128) [384, 640) [896, 1024); rank 1: [128, 384) [640, 896).
  --plan.ranks[0].segments[0].length;
  --plan.ranks[0].num_tokens;
  --plan.ranks[1].segments[0].begin;
  ++plan.ranks[1].segments[0].length;
  ++plan.ranks[1].num_tokens;
  plan.digest = PlanDigest(plan);
  EXPECT_THAT(VerifyPlan(plan),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("rank 0: 511 rows; must be in [512, 512]")));
}

// One random row is dropped, doubled or moved; the digest fits.
TEST(VerifyPlanTest, CatchesRandomFaultsOfAllLayouts) {
  constexpr int kCpSize = 3;
  std::mt19937 random(22);
  for (const LayoutSpec& spec : TestSpecs()) {
    for (int i = 0; i < 200; ++i) {
      auto plan = PlanShards(PackFor(spec, kCpSize, random), spec, kCpSize);
      ASSERT_THAT(plan, IsOk());
      const int rank = static_cast<int>(random() % kCpSize);
      RankPlan& loser = plan->ranks[rank];
      if (loser.segments.empty()) continue;
      const size_t at = random() % loser.segments.size();
      Segment row = loser.segments[at];
      row.begin += row.length - 1;
      row.length = 1;
      const int fault = i % 3;
      if (fault != 1) {
        --loser.num_tokens;
        if (--loser.segments[at].length == 0) {
          loser.segments.erase(loser.segments.begin() + at);
        }
      }
      if (fault != 0) {
        RankPlan& winner = plan->ranks[(rank + 1) % kCpSize];
        ++winner.num_tokens;
        const auto behind =
            std::find_if(winner.segments.begin(), winner.segments.end(),
                         [&](const Segment& other) {
                           return other.sequence > row.sequence ||
                                  (other.sequence == row.sequence &&
                                   other.begin > row.begin);
                         });
        winner.segments.insert(behind, row);
      }
      plan->digest = PlanDigest(*plan);
      EXPECT_THAT(VerifyPlan(*plan), Not(IsOk()))
          << LayoutName(spec.layout) << ", fault " << fault;
    }
  }
}

}  // namespace
}  // namespace cpfeed

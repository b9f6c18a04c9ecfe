// What holds for every layout over random packs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "core/plan/layout.h"
#include "core/plan/layout_spec.h"
#include "core/plan/rank_plan.h"
#include "core/plan/shard_plan.h"
#include "tests/core/plan/packs.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::PackFor;
using ::cpfeed::testing::TestSpecs;

constexpr int kPacks = 40;

using SpecAndSize = std::tuple<LayoutSpec, int>;

class PlanPropertyTest : public ::testing::TestWithParam<SpecAndSize> {
 protected:
  const LayoutSpec& spec() const { return std::get<0>(GetParam()); }
  int cp_size() const { return std::get<1>(GetParam()); }

  // Calls check(plan) for random packs.
  template <class Check>
  void ForRandomPlans(Check check) {
    std::mt19937 random(7 * cp_size());
    for (int i = 0; i < kPacks; ++i) {
      const PackedLengths lengths = PackFor(spec(), cp_size(), random);
      const auto plan = PlanShards(lengths, spec(), cp_size());
      ASSERT_THAT(plan, IsOk());
      check(*plan);
    }
  }
};

int64_t TotalTokens(const ShardPlan& plan) {
  return std::accumulate(plan.lengths.padded.begin(), plan.lengths.padded.end(),
                         int64_t{0});
}

// For each position of the padded stream 1 where the layout keeps it.
std::vector<int> Kept(const ShardPlan& plan) {
  const bool drops_padding =
      plan.spec.layout == Layout::kBalanced && plan.cp_size > 1;
  std::vector<int> kept;
  for (int64_t s = 0; s < plan.lengths.num_sequences(); ++s) {
    const int64_t real = plan.lengths.real[s];
    const int64_t padded = plan.lengths.padded[s];
    kept.insert(kept.end(), real, 1);
    kept.insert(kept.end(), padded - real, drops_padding ? 0 : 1);
  }
  return kept;
}

TEST_P(PlanPropertyTest, EveryKeptPositionIsHeldExactlyOnceInAscendingOrder) {
  ForRandomPlans([&](const ShardPlan& plan) {
    std::vector<int> holders(TotalTokens(plan), 0);
    for (int rank = 0; rank < cp_size(); ++rank) {
      const std::vector<int32_t> index = LocalIndex(plan, rank);
      EXPECT_TRUE(std::is_sorted(index.begin(), index.end()));
      for (const int32_t position : index) ++holders[position];
    }
    EXPECT_EQ(holders, Kept(plan));
  });
}

TEST_P(PlanPropertyTest, ScatteringByTheIndexUndoesGathering) {
  ForRandomPlans([&](const ShardPlan& plan) {
    std::vector<int64_t> stream(TotalTokens(plan));
    std::iota(stream.begin(), stream.end(), 1000);
    const std::vector<int> kept = Kept(plan);
    for (size_t i = 0; i < stream.size(); ++i) {
      if (kept[i] == 0) stream[i] = -1;
    }
    std::vector<int64_t> restored(stream.size(), -1);
    for (int rank = 0; rank < cp_size(); ++rank) {
      for (const int32_t position : LocalIndex(plan, rank)) {
        restored[position] = stream[position];
      }
    }
    EXPECT_EQ(restored, stream);
  });
}

TEST_P(PlanPropertyTest, RanksHaveEquallyManyRows) {
  ForRandomPlans([&](const ShardPlan& plan) {
    const std::vector<int> kept = Kept(plan);
    const int64_t total = std::accumulate(kept.begin(), kept.end(), int64_t{0});
    const int64_t more = total % cp_size() == 0 ? 0 : 1;
    for (const RankPlan& rank : plan.ranks) {
      EXPECT_GE(rank.num_tokens, total / cp_size());
      EXPECT_LE(rank.num_tokens, total / cp_size() + more);
    }
  });
}

TEST_P(PlanPropertyTest, SegmentsAreMaximalAndNotEmpty) {
  ForRandomPlans([&](const ShardPlan& plan) {
    for (const RankPlan& rank : plan.ranks) {
      int64_t rows = 0;
      for (size_t i = 0; i < rank.segments.size(); ++i) {
        const Segment& segment = rank.segments[i];
        EXPECT_GT(segment.length, 0);
        rows += segment.length;
        if (i == 0) continue;
        const Segment& before = rank.segments[i - 1];
        EXPECT_FALSE(before.sequence == segment.sequence &&
                     before.begin + before.length == segment.begin);
      }
      EXPECT_EQ(rows, rank.num_tokens);
    }
  });
}

// Counts row by row what ComputeLocalCuSeqlens adds up by segments.
TEST_P(PlanPropertyTest, LocalPrefixSumsCountLocalRows) {
  ForRandomPlans([&](const ShardPlan& plan) {
    std::vector<int64_t> sequence_of;
    std::vector<bool> is_real;
    for (int64_t s = 0; s < plan.lengths.num_sequences(); ++s) {
      for (int64_t p = 0; p < plan.lengths.padded[s]; ++p) {
        sequence_of.push_back(s);
        is_real.push_back(p < plan.lengths.real[s]);
      }
    }
    for (int rank = 0; rank < cp_size(); ++rank) {
      std::vector<int32_t> rows(plan.lengths.num_sequences() + 1, 0);
      std::vector<int32_t> real_rows = rows;
      for (const int32_t position : LocalIndex(plan, rank)) {
        ++rows[sequence_of[position] + 1];
        real_rows[sequence_of[position] + 1] += is_real[position];
      }
      std::partial_sum(rows.begin(), rows.end(), rows.begin());
      std::partial_sum(real_rows.begin(), real_rows.end(), real_rows.begin());
      const LocalCuSeqlens local = ComputeLocalCuSeqlens(plan, rank);
      EXPECT_EQ(local.cu_seqlens_padded, rows);
      EXPECT_EQ(local.cu_seqlens, real_rows);
    }
  });
}

TEST_P(PlanPropertyTest, SamePackSamePlan) {
  ForRandomPlans([&](const ShardPlan& plan) {
    const auto again = PlanShards(plan.lengths, spec(), cp_size());
    ASSERT_THAT(again, IsOk());
    EXPECT_EQ(again->digest, plan.digest);
  });
}

constexpr int kSizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 11, 13, 16};

INSTANTIATE_TEST_SUITE_P(All, PlanPropertyTest,
                         ::testing::Combine(::testing::ValuesIn(TestSpecs()),
                                            ::testing::ValuesIn(kSizes)),
                         [](const auto& info) {
                           return std::string(LayoutName(
                                      std::get<0>(info.param).layout)) +
                                  "On" +
                                  std::to_string(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace cpfeed

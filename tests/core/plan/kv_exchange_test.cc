#include "core/plan/kv_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/plan/layout.h"
#include "core/plan/layout_spec.h"
#include "core/plan/shard_plan.h"
#include "tests/core/plan/packs.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::OneRow;
using ::cpfeed::testing::PackFor;
using ::cpfeed::testing::TestSpecs;
using ::testing::Each;
using ::testing::ElementsAre;

TEST(KvExchangeTest, RanksReceiveWhatTheirLastRowSees) {
  // Position:  0 1 2 3 4 5 6 7    rank 0 sees all rows, rank 1 the first six
  // Holder:    0 0 1 1 1 1 0 0
  const auto plan = PlanShards(OneRow({8}), {}, 2);
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(CountKvRowsReceived(*plan), ElementsAre(4, 2));
  EXPECT_THAT(CountKvRowsSent(*plan), ElementsAre(2, 4));
}

TEST(KvExchangeTest, PaddingIsNeitherQueryNorKey) {
  // Rank 0 holds the real row 0 and pads only behind it.
  const auto plan = PlanShards(OneRow({3}, {8}), {}, 2);
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(CountKvRowsReceived(*plan), ElementsAre(0, 2));
  EXPECT_THAT(CountKvRowsSent(*plan), ElementsAre(2, 0));
}

TEST(KvExchangeTest, WholeSequencesNeedNothing) {
  const auto plan =
      PlanShards(OneRow({4, 4}), {.layout = Layout::kContiguous}, 2);
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(CountKvRowsReceived(*plan), Each(0));
  EXPECT_THAT(CountKvRowsSent(*plan), Each(0));
}

// Rank by rank: the set of foreign rows that its real rows see.
struct RowByRow {
  explicit RowByRow(const ShardPlan& plan)
      : received(plan.cp_size, 0), sent(plan.cp_size, 0) {
    std::vector<int64_t> slot_begin;
    std::vector<bool> is_real;
    for (int64_t s = 0; s < plan.lengths.num_sequences(); ++s) {
      const int64_t begin = static_cast<int64_t>(is_real.size());
      for (int64_t p = 0; p < plan.lengths.padded[s]; ++p) {
        slot_begin.push_back(begin);
        is_real.push_back(p < plan.lengths.real[s]);
      }
    }
    std::vector<int> holder(is_real.size());
    for (int rank = 0; rank < plan.cp_size; ++rank) {
      for (const int32_t row : LocalIndex(plan, rank)) holder[row] = rank;
    }
    for (int rank = 0; rank < plan.cp_size; ++rank) {
      std::set<int64_t> seen;
      for (const int32_t row : LocalIndex(plan, rank)) {
        if (!is_real[row]) continue;
        for (int64_t key = slot_begin[row]; key <= row; ++key) {
          if (holder[key] != rank) seen.insert(key);
        }
      }
      received[rank] = static_cast<int64_t>(seen.size());
      for (const int64_t key : seen) ++sent[holder[key]];
    }
  }

  std::vector<int64_t> received;
  std::vector<int64_t> sent;
};

class KvExchangePropertyTest : public ::testing::TestWithParam<LayoutSpec> {};

TEST_P(KvExchangePropertyTest, AgreesWithSetsOfRows) {
  std::mt19937 random(31);
  for (const int cp_size : {1, 2, 3, 5, 8}) {
    for (int i = 0; i < 8; ++i) {
      const auto plan =
          PlanShards(PackFor(GetParam(), cp_size, random), GetParam(), cp_size);
      ASSERT_THAT(plan, IsOk());
      const RowByRow slow(*plan);
      EXPECT_EQ(CountKvRowsReceived(*plan), slow.received);
      EXPECT_EQ(CountKvRowsSent(*plan), slow.sent);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, KvExchangePropertyTest,
                         ::testing::ValuesIn(TestSpecs()),
                         [](const auto& info) {
                           return std::string(LayoutName(info.param.layout));
                         });

}  // namespace
}  // namespace cpfeed

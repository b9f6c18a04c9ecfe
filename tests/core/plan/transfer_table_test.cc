#include "core/plan/transfer_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/plan/layout.h"
#include "core/plan/layout_spec.h"
#include "core/plan/rank_plan.h"
#include "core/plan/shard_plan.h"
#include "core/plan/visible_keys.h"
#include "tests/core/plan/packs.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::OneRow;
using ::cpfeed::testing::PackFor;
using ::cpfeed::testing::TestSpecs;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(TransferTableTest, RanksReceiveWhatTheirLastRowSees) {
  // Position:  0 1 2 3 4 5 6 7    rank 0 sees all rows, rank 1 the first six
  // Holder:    0 0 1 1 1 1 0 0
  const auto plan = PlanShards(OneRow({8}), {}, 2);
  ASSERT_THAT(plan, IsOk());
  const TransferTable table(*plan);
  const std::vector<KvTransfer> to_0 = table.ReceivedBy(0);
  ASSERT_EQ(to_0.size(), 1);
  EXPECT_EQ(to_0[0].peer, 1);
  EXPECT_EQ(to_0[0].num_rows, 4);
  EXPECT_THAT(to_0[0].runs, ElementsAre(KvRun{0, 2, 4, 0}));
  const std::vector<KvTransfer> to_1 = table.ReceivedBy(1);
  ASSERT_EQ(to_1.size(), 1);
  EXPECT_THAT(to_1[0].runs, ElementsAre(KvRun{0, 0, 2, 0}));
}

TEST(TransferTableTest, AWindowCutsTheTransferShort) {
  // Queries 6 and 7 of rank 0 see 5, 6, 7; queries 0 and 1 see no foreign row.
  const auto plan = PlanShards(OneRow({8}), {}, 2);
  ASSERT_THAT(plan, IsOk());
  const TransferTable table(*plan, VisibleKeys::Window(1));
  const std::vector<KvTransfer> to_0 = table.ReceivedBy(0);
  ASSERT_EQ(to_0.size(), 1);
  EXPECT_THAT(to_0[0].runs, ElementsAre(KvRun{0, 5, 1, 3}));
}

TEST(TransferTableTest, OwnersKnowTheRowOfARunBehindOtherSequences) {
  // Rank 0 holds 0 3 of the first sequence in rows 0 1 and 0 1 6 7 of the
  // second in rows 2 3 4 5.
  const auto plan = PlanShards(OneRow({4, 8}), {}, 2);
  ASSERT_THAT(plan, IsOk());
  const std::vector<KvTransfer> from_0 = TransferTable(*plan).SentBy(0);
  ASSERT_EQ(from_0.size(), 1);
  EXPECT_THAT(from_0[0].runs,
              ElementsAre(KvRun{0, 0, 1, 0}, KvRun{1, 0, 2, 2}));
}

TEST(TransferTableTest, WholeSequencesTravelNowhere) {
  const auto plan =
      PlanShards(OneRow({4, 4}), {.layout = Layout::kContiguous}, 2);
  ASSERT_THAT(plan, IsOk());
  const TransferTable table(*plan);
  for (const int rank : {0, 1}) {
    EXPECT_THAT(table.ReceivedBy(rank), IsEmpty());
    EXPECT_THAT(table.SentBy(rank), IsEmpty());
    EXPECT_EQ(table.traffic()[rank].received, 0);
    EXPECT_EQ(table.traffic()[rank].fan_out, 0);
  }
}

TEST(TransferTableTest, AHeadThatAllSeeHasAsManyReceiversAsThereAreOthers) {
  const auto plan =
      PlanShards(OneRow({12}), {.layout = Layout::kContiguous}, 4);
  ASSERT_THAT(plan, IsOk());
  const std::vector<KvTraffic> traffic = TransferTable(*plan).traffic();
  EXPECT_EQ(traffic[0].fan_out, 3);
  EXPECT_EQ(traffic[0].sent, 9);
  EXPECT_EQ(traffic[0].sent_once, 3);
  EXPECT_EQ(traffic[3].received, 9);
  EXPECT_EQ(traffic[3].sent, 0);
}

// Sequence and position of a row.
using Row = std::pair<int32_t, int32_t>;

struct Place {
  int cp_rank;
  int32_t row;
};

std::map<Row, Place> RealRows(const ShardPlan& plan) {
  std::map<Row, Place> rows;
  for (int rank = 0; rank < plan.cp_size; ++rank) {
    int32_t row = 0;
    for (const Segment& segment : plan.ranks[rank].segments) {
      for (int32_t i = 0; i < segment.length; ++i, ++row) {
        const int32_t position = segment.begin + i;
        if (position >= plan.lengths.real[segment.sequence]) continue;
        rows[{segment.sequence, position}] = {rank, row};
      }
    }
  }
  return rows;
}

// For each pair (from, to) the rows that a query of `to` sees, query by query
// and key by key.
std::map<std::pair<int, int>, std::set<Row>> TravelRowByRow(
    const ShardPlan& plan, const VisibleKeys& mask) {
  const std::map<Row, Place> rows = RealRows(plan);
  std::map<std::pair<int, int>, std::set<Row>> travel;
  for (auto first = rows.begin(); first != rows.end();) {
    const int32_t sequence = first->first.first;
    const auto last = rows.lower_bound({sequence + 1, 0});
    std::vector<int> holders;
    for (auto row = first; row != last; ++row) {
      holders.push_back(row->second.cp_rank);
    }
    const int length = static_cast<int>(holders.size());
    for (int key = 0; key < length; ++key) {
      std::set<int> seen_by;
      for (int query = 0; query < length; ++query) {
        if (mask.left >= 0 && key < query - mask.left) continue;
        if (mask.right >= 0 && key > query + mask.right) continue;
        if (holders[query] != holders[key]) seen_by.insert(holders[query]);
      }
      for (const int to : seen_by) {
        travel[{holders[key], to}].insert({sequence, key});
      }
    }
    first = last;
  }
  return travel;
}

// Row by row what the runs of a transfer say; checks order and owner's rows.
std::set<Row> RowsOf(const KvTransfer& transfer, int owner,
                     const std::map<Row, Place>& places) {
  std::vector<Row> rows;
  for (const KvRun& run : transfer.runs) {
    EXPECT_GT(run.length, 0);
    for (int32_t i = 0; i < run.length; ++i) {
      rows.push_back({run.sequence, run.begin + i});
      const Place& place = places.at(rows.back());
      EXPECT_EQ(place.cp_rank, owner);
      EXPECT_EQ(place.row, run.owner_row + i);
    }
  }
  EXPECT_EQ(rows.size(), transfer.num_rows);
  EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end()));
  std::set<Row> unique(rows.begin(), rows.end());
  EXPECT_EQ(unique.size(), rows.size());
  return unique;
}

void ExpectTravel(const ShardPlan& plan, const VisibleKeys& mask) {
  const auto expected = TravelRowByRow(plan, mask);
  const auto places = RealRows(plan);
  const TransferTable table(plan, mask);
  std::map<std::pair<int, int>, std::set<Row>> received;
  std::map<std::pair<int, int>, std::set<Row>> sent;
  for (int rank = 0; rank < plan.cp_size; ++rank) {
    for (const KvTransfer& transfer : table.ReceivedBy(rank)) {
      received[{transfer.peer, rank}] = RowsOf(transfer, transfer.peer, places);
    }
    for (const KvTransfer& transfer : table.SentBy(rank)) {
      sent[{rank, transfer.peer}] = RowsOf(transfer, rank, places);
    }
  }
  EXPECT_EQ(received, expected);
  EXPECT_EQ(sent, expected);
  std::vector<KvTraffic> traffic(plan.cp_size);
  std::map<Row, int64_t> receivers;
  for (const auto& [pair, rows] : expected) {
    traffic[pair.first].sent += static_cast<int64_t>(rows.size());
    traffic[pair.second].received += static_cast<int64_t>(rows.size());
    for (const Row& row : rows) ++receivers[row];
  }
  for (const auto& [row, count] : receivers) {
    KvTraffic& owner = traffic[places.at(row).cp_rank];
    ++owner.sent_once;
    owner.fan_out = std::max(owner.fan_out, count);
  }
  for (int rank = 0; rank < plan.cp_size; ++rank) {
    EXPECT_EQ(table.traffic()[rank].received, traffic[rank].received);
    EXPECT_EQ(table.traffic()[rank].sent, traffic[rank].sent);
    EXPECT_EQ(table.traffic()[rank].sent_once, traffic[rank].sent_once);
    EXPECT_EQ(table.traffic()[rank].fan_out, traffic[rank].fan_out);
  }
}

using MaskAndSize = std::tuple<VisibleKeys, int>;

class TransferTablePropertyTest : public ::testing::TestWithParam<MaskAndSize> {
};

TEST_P(TransferTablePropertyTest, RowsTravelExactlyWhereTheyAreSeen) {
  const auto& [mask, cp_size] = GetParam();
  std::mt19937 random(5 * cp_size);
  for (const LayoutSpec& spec : TestSpecs()) {
    for (int i = 0; i < 2; ++i) {
      const auto plan =
          PlanShards(PackFor(spec, cp_size, random), spec, cp_size);
      ASSERT_THAT(plan, IsOk());
      ExpectTravel(*plan, mask);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, TransferTablePropertyTest,
    ::testing::Combine(::testing::Values(VisibleKeys::Causal(),
                                         VisibleKeys::Full(),
                                         VisibleKeys::Window(0),
                                         VisibleKeys::Window(5),
                                         VisibleKeys{.left = 3, .right = 2},
                                         VisibleKeys{.left = -1, .right = 7},
                                         VisibleKeys{.left = 4, .right = -1}),
                       ::testing::Values(1, 2, 3, 5, 8)));

}  // namespace
}  // namespace cpfeed

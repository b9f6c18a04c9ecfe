#include "core/shard/source_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace cpfeed {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Runs = std::vector<CopyRun>;

std::vector<SourceRuns> Ranks(const std::vector<Runs>& copies) {
  std::vector<SourceRuns> ranks;
  for (const Runs& runs : copies) ranks.push_back({.copies = runs});
  return ranks;
}

// One sequence of 12 in chunks of 2, then one of 6 in chunks of 1:
//   0 0 1 1 2 2 2 2 1 1 0 0 | 0 1 2 2 1 0
TEST(MergeBySourceTest, HeadsAndTailsOfTwoSequences) {
  const auto ranks = Ranks({{{0, 0, 2}, {2, 10, 3}, {5, 17, 1}},
                            {{0, 2, 2}, {2, 8, 2}, {4, 13, 1}, {5, 16, 1}},
                            {{0, 4, 4}, {4, 14, 2}}});
  EXPECT_THAT(MergeBySource(ranks),
              ElementsAre(RankCopy{0, 0, 2, 0}, RankCopy{2, 0, 2, 1},
                          RankCopy{4, 0, 4, 2}, RankCopy{8, 2, 2, 1},
                          RankCopy{10, 2, 3, 0}, RankCopy{13, 4, 1, 1},
                          RankCopy{14, 4, 2, 2}, RankCopy{16, 5, 1, 1},
                          RankCopy{17, 5, 1, 0}));
}

TEST(MergeBySourceTest, NothingToMerge) {
  EXPECT_THAT(MergeBySource({}), IsEmpty());
  EXPECT_THAT(MergeBySource(Ranks({{}, {}})), IsEmpty());
}

// Property: equal to sorting, for any deal, with and without gaps.
TEST(MergeBySourceTest, EqualsSorting) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 500; ++round) {
    const int cp_size = static_cast<int>(random() % 9 + 1);
    const bool gaps = random() % 2 == 0;
    std::vector<Runs> copies(cp_size);
    std::vector<RankCopy> sorted;
    std::vector<int32_t> rows(cp_size, 0);
    int32_t source = static_cast<int32_t>(random() % 3);
    for (int i = static_cast<int>(random() % 60); i > 0; --i) {
      const auto rank = static_cast<int32_t>(random() % cp_size);
      const auto length = static_cast<int32_t>(random() % 4 + 1);
      copies[rank].push_back({rows[rank], source, length});
      sorted.push_back({source, rows[rank], length, rank});
      rows[rank] += length;
      source += length + (gaps ? static_cast<int32_t>(random() % 3) : 0);
    }
    ASSERT_EQ(MergeBySource(Ranks(copies)), sorted);
  }
}

}  // namespace
}  // namespace cpfeed

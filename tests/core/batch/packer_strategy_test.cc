#include "core/batch/packer_strategy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOkAndHolds;
using ::cpfeed::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Rows = std::vector<std::vector<int64_t>>;

TEST(PackerStrategyTest, FirstFitTakesTheFirstRowWithRoom) {
  // [3 3 3 4 4 4 4 .] [5 5 5 5 5 2 2 .] then 1 fits the first row again.
  EXPECT_THAT(AssignToRows({3, 4, 5, 2, 1}, 8, PackStrategy::kFirstFit),
              ElementsAre(ElementsAre(0, 1, 4), ElementsAre(2, 3)));
}

TEST(PackerStrategyTest, BestFitDecreasingTakesTheFullestRowWithRoom) {
  // By width: 6 | 5 | 3 beside 5 | 2 beside 6.
  EXPECT_THAT(AssignToRows({3, 6, 2, 5}, 8, PackStrategy::kBestFitDecreasing),
              ElementsAre(ElementsAre(1, 2), ElementsAre(0, 3)));
}

TEST(PackerStrategyTest, SlotsOfRowWidthAndOfZeroAreLegal) {
  for (const PackStrategy strategy :
       {PackStrategy::kFirstFit, PackStrategy::kBestFitDecreasing}) {
    EXPECT_THAT(AssignToRows({}, 8, strategy), IsEmpty());
    EXPECT_THAT(AssignToRows({8, 8}, 8, strategy),
                ElementsAre(ElementsAre(0), ElementsAre(1)));
    EXPECT_THAT(AssignToRows({8, 0, 0}, 8, strategy),
                ElementsAre(ElementsAre(0, 1, 2)));
  }
}

TEST(PackerStrategyTest, NamesAreReadInEitherCase) {
  EXPECT_THAT(ParsePackStrategy("FIRST_FIT"),
              IsOkAndHolds(PackStrategy::kFirstFit));
  EXPECT_THAT(ParsePackStrategy("best_fit_decreasing"),
              IsOkAndHolds(PackStrategy::kBestFitDecreasing));
  EXPECT_THAT(ParsePackStrategy("Balanced"),
              IsOkAndHolds(PackStrategy::kBalanced));
  EXPECT_THAT(ParsePackStrategy("worst_fit"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("\"worst_fit\"; must be first_fit, best")));
  EXPECT_THAT(ParsePackStrategy(""), HasReason(kBadOption));
}

// The definitions, row by row: quadratic and obvious.
Rows SlowAssign(const std::vector<int64_t>& slots, int64_t row_width,
                PackStrategy strategy) {
  std::vector<int64_t> order(slots.size());
  std::iota(order.begin(), order.end(), 0);
  if (strategy == PackStrategy::kBestFitDecreasing) {
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return slots[a] > slots[b]; });
  }
  Rows rows;
  std::vector<int64_t> room;
  for (const int64_t i : order) {
    int64_t chosen = -1;
    for (size_t row = 0; row < rows.size(); ++row) {
      if (room[row] < slots[i]) continue;
      const bool better = chosen < 0 || room[row] < room[chosen];
      if (strategy == PackStrategy::kFirstFit ? chosen < 0 : better) {
        chosen = static_cast<int64_t>(row);
      }
    }
    if (chosen < 0) {
      chosen = static_cast<int64_t>(rows.size());
      rows.emplace_back();
      room.push_back(row_width);
    }
    rows[chosen].push_back(i);
    room[chosen] -= slots[i];
  }
  for (auto& row : rows) std::sort(row.begin(), row.end());
  return rows;
}

struct RandomCase {
  PackStrategy strategy;
  int64_t row_width;
};

class PackerStrategyPropertyTest : public ::testing::TestWithParam<RandomCase> {
};

TEST_P(PackerStrategyPropertyTest, EqualsTheSlowDefinition) {
  const auto [strategy, row_width] = GetParam();
  std::mt19937 random(17);
  for (int round = 0; round < 200; ++round) {
    std::vector<int64_t> slots(random() % 60);
    for (int64_t& slot : slots) {
      slot = static_cast<int64_t>(random() % (row_width + 1));
    }
    EXPECT_EQ(AssignToRows(slots, row_width, strategy),
              SlowAssign(slots, row_width, strategy))
        << ::testing::PrintToString(slots);
  }
}

INSTANTIATE_TEST_SUITE_P(All, PackerStrategyPropertyTest,
                         ::testing::ValuesIn(std::vector<RandomCase>{
                             {PackStrategy::kFirstFit, 1},
                             {PackStrategy::kFirstFit, 13},
                             {PackStrategy::kFirstFit, 4096},
                             {PackStrategy::kBestFitDecreasing, 1},
                             {PackStrategy::kBestFitDecreasing, 13},
                             {PackStrategy::kBestFitDecreasing, 4096},
                         }),
                         [](const auto& info) {
                           return absl::StrCat(
                               info.param.strategy == PackStrategy::kFirstFit
                                   ? "FirstFit"
                                   : "BestFitDecreasing",
                               info.param.row_width);
                         });

}  // namespace
}  // namespace cpfeed

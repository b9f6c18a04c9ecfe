#include "core/attention/merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace cpfeed {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

constexpr double kNone = -std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// A running result of one row and one head with two columns.
struct Running {
  std::vector<double> out = {0, 0};
  double lse = kNone;

  void Merge(std::vector<double> part_out, double part_lse) {
    MergePart<double>(1, 1, 2, part_out.data(), &part_lse, out.data(), &lse);
  }
};

TEST(MergePartTest, WeightsPartsByTheirSumOfExponentials) {
  Running running;
  running.Merge({1, 10}, 0);
  running.Merge({3, 30}, std::log(3));
  EXPECT_THAT(running.out,
              ElementsAre(DoubleNear(2.5, 1e-15), DoubleNear(25, 1e-14)));
  EXPECT_NEAR(running.lse, std::log(4), 1e-15);
  running.Merge({-2, -20}, std::log(4));
  EXPECT_THAT(running.out,
              ElementsAre(DoubleNear(0.25, 1e-15), DoubleNear(2.5, 1e-14)));
  EXPECT_NEAR(running.lse, std::log(8), 1e-15);
}

TEST(MergePartTest, FirstPartIsTakenAsItIs) {
  Running running;
  running.Merge({0.1, -0.7}, 123.456);
  EXPECT_THAT(running.out, ElementsAre(0.1, -0.7));
  EXPECT_EQ(running.lse, 123.456);
}

TEST(MergePartTest, PartWithoutKeysChangesNothingWhateverItHolds) {
  Running running;
  running.Merge({kNaN, 5}, kNone);
  EXPECT_THAT(running.out, ElementsAre(0, 0));
  EXPECT_EQ(running.lse, kNone);
  running.Merge({1, 2}, 3);
  running.Merge({kNaN, kNaN}, kNone);
  EXPECT_THAT(running.out, ElementsAre(1, 2));
  EXPECT_EQ(running.lse, 3);
}

TEST(MergePartTest, FarApartPartsNeitherOverflowNorVanish) {
  Running running;
  running.Merge({1, 1}, -1e5);
  running.Merge({2, 2}, 1e5);
  EXPECT_THAT(running.out, ElementsAre(2, 2));
  EXPECT_EQ(running.lse, 1e5);
  running.Merge({1, 1}, -1e5);
  EXPECT_THAT(running.out, ElementsAre(2, 2));
}

TEST(MergePartTest, NaNStaysInItsRowAndHead) {
  // 2 rows x 2 heads x 1 column.
  std::vector<double> out = {1, 1, 1, 1}, lse = {0, 0, 0, 0};
  const std::vector<double> part_out = {3, kNaN, 3, 3},
                            part_lse = {0, kNaN, 0, 0};
  MergePart<double>(2, 2, 1, part_out.data(), part_lse.data(), out.data(),
                    lse.data());
  EXPECT_TRUE(std::isnan(out[1]));
  EXPECT_TRUE(std::isnan(lse[1]));
  for (const int i : {0, 2, 3}) {
    EXPECT_EQ(out[i], 2);
    EXPECT_NEAR(lse[i], std::log(2), 1e-15);
  }
}

// One part of 1.0 and seven of 0.003 with equal weight each, as sums: 1.021.
// A bfloat16 accumulator would lose each of the small ones.
TEST(MergePartTest, FloatAccumulatorKeepsSmallParts) {
  float out = 0, lse = -std::numeric_limits<float>::infinity();
  const float zero = 0, first = 1.0f, small = 0.003f;
  MergePart<float>(1, 1, 1, &first, &zero, &out, &lse);
  for (int i = 0; i < 7; ++i) {
    MergePart<float>(1, 1, 1, &small, &zero, &out, &lse);
  }
  EXPECT_NEAR(out * std::exp(lse), 1.021, 1e-5);
}

}  // namespace
}  // namespace cpfeed

#include "core/base/checked_math.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

namespace cpfeed {
namespace {

constexpr int64_t kMax = INT64_MAX;
constexpr int64_t kMin = INT64_MIN;

TEST(CheckedMathTest, ProductsThatFitAreExact) {
  EXPECT_EQ(CheckedMul(1 << 30, 1 << 30), int64_t{1} << 60);
  EXPECT_EQ(CheckedMul(kMax, 1), kMax);
  EXPECT_EQ(CheckedMul(kMax, 0), 0);
  EXPECT_EQ(CheckedMul(int64_t{1} << 62, -2), kMin);
}

TEST(CheckedMathTest, ProductsThatDoNotFitAreNothing) {
  EXPECT_EQ(CheckedMul(int64_t{1} << 62, 2), std::nullopt);
  EXPECT_EQ(CheckedMul(int64_t{1} << 32, int64_t{1} << 32), std::nullopt);
  EXPECT_EQ(CheckedMul(kMin, -1), std::nullopt);
}

TEST(CheckedMathTest, SumsThatDoNotFitAreNothing) {
  EXPECT_EQ(CheckedAdd(kMax - 1, 1), kMax);
  EXPECT_EQ(CheckedAdd(kMax, 1), std::nullopt);
  EXPECT_EQ(CheckedAdd(kMin, -1), std::nullopt);
  EXPECT_EQ(CheckedAdd(kMax, kMin), -1);
}

TEST(CheckedMathTest, RoundsUpToTheNextMultiple) {
  EXPECT_EQ(RoundUp(0, 8), 0);
  EXPECT_EQ(RoundUp(1, 8), 8);
  EXPECT_EQ(RoundUp(8, 8), 8);
  EXPECT_EQ(RoundUp(9, 8), 16);
  EXPECT_EQ(RoundUp(7, 1), 7);
}

}  // namespace
}  // namespace cpfeed

#include "core/plan/position_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <vector>

namespace cpfeed {
namespace {

using ::testing::Optional;

TEST(PositionSetTest, NamesThePositionThatIsThereTwice) {
  PositionSet set(200);
  EXPECT_EQ(set.Insert(60, 70), std::nullopt);
  EXPECT_EQ(set.Insert(128, 192), std::nullopt);
  EXPECT_THAT(set.Insert(65, 66), Optional(65));
  EXPECT_THAT(set.Insert(70, 129), Optional(128));
}

TEST(PositionSetTest, NamesTheFirstThatIsMissing) {
  PositionSet set(200);
  EXPECT_THAT(set.FirstMissing(0, 200), Optional(0));
  set.Insert(0, 64);
  EXPECT_EQ(set.FirstMissing(0, 64), std::nullopt);
  EXPECT_THAT(set.FirstMissing(0, 65), Optional(64));
  set.Insert(65, 200);
  EXPECT_THAT(set.FirstMissing(3, 200), Optional(64));
  EXPECT_EQ(set.FirstMissing(65, 200), std::nullopt);
  EXPECT_EQ(set.FirstMissing(64, 64), std::nullopt);
}

TEST(PositionSetTest, AgreesWithOneFlagForEachPosition) {
  constexpr int64_t kSize = 300;
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    PositionSet set(kSize);
    std::vector<bool> flags(kSize, false);
    for (int i = 0; i < 4; ++i) {
      const int64_t begin = random() % kSize;
      const int64_t end = begin + random() % (kSize - begin + 1);
      std::optional<int64_t> twice;
      for (int64_t p = begin; p < end && !twice; ++p) {
        if (flags[p]) twice = p;
      }
      EXPECT_EQ(set.Insert(begin, end), twice);
      if (twice.has_value()) break;
      for (int64_t p = begin; p < end; ++p) flags[p] = true;
      std::optional<int64_t> missing;
      for (int64_t p = i; p < kSize && !missing; ++p) {
        if (!flags[p]) missing = p;
      }
      EXPECT_EQ(set.FirstMissing(i, kSize), missing);
    }
  }
}

}  // namespace
}  // namespace cpfeed

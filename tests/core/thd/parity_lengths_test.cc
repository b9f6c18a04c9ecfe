#include "core/thd/parity_lengths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace cpfeed {
namespace {

using ::testing::ElementsAre;

TEST(LayoutMaskTest, EverythingButRealTokensIsPadding) {
  EXPECT_THAT(LayoutMask(12, {3, 2}, {4, 4}),
              ElementsAre(0, 0, 0, 1, 0, 0, 1, 1, 1, 1, 1, 1));
  EXPECT_THAT(LayoutMask(8, {3, 0, 2}, {4, 0, 4}),
              ElementsAre(0, 0, 0, 1, 0, 0, 1, 1));
}

TEST(LayoutMaskTest, SenselessLengthsStayInside) {
  EXPECT_THAT(LayoutMask(4, {-5, 9, 1}, {-3, 3, 100}), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(LayoutMask(2, {1, 1}, {1}), ElementsAre(0, 1));
}

TEST(PrefixSums32Test, SumsStartAtZero) {
  EXPECT_THAT(PrefixSums32({}), ElementsAre(0));
  EXPECT_THAT(PrefixSums32({3, 0, 2}), ElementsAre(0, 3, 3, 5));
}

TEST(AbsorbTailTest, OnlyTheLastEntryMayDiffer) {
  std::vector<int32_t> real = {0, 3, 5};
  std::vector<int32_t> padded = {0, 3, 8};
  AbsorbTail(8, real, padded);
  EXPECT_THAT(real, ElementsAre(0, 3, 8));
  EXPECT_EQ(real, padded);

  real = {0, 2, 5};
  AbsorbTail(8, real, padded);
  EXPECT_THAT(real, ElementsAre(0, 2, 5));
  EXPECT_THAT(padded, ElementsAre(0, 3, 8));

  real = padded = {0};
  AbsorbTail(8, real, padded);
  EXPECT_THAT(real, ElementsAre(0));
}

TEST(WidestStepTest, IsTheWidestSlot) {
  EXPECT_EQ(WidestStep({0, 2, 9, 9}), 7);
}

}  // namespace
}  // namespace cpfeed

#include "client/documents/permutation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace cpfeed {
namespace {

std::vector<int64_t> Order(int64_t size, uint64_t seed) {
  const Permutation permutation(size, seed);
  std::vector<int64_t> order;
  for (int64_t i = 0; i < size; ++i) order.push_back(permutation.At(i));
  return order;
}

TEST(PermutationTest, HoldsEveryNumberOnce) {
  for (const int64_t size : {1, 2, 3, 7, 256, 257, 1000, 65536, 100003}) {
    for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
      const auto order = Order(size, seed);
      const std::set<int64_t> seen(order.begin(), order.end());
      EXPECT_EQ(seen.size(), size);
      EXPECT_EQ(*seen.begin(), 0);
      EXPECT_EQ(*seen.rbegin(), size - 1);
    }
  }
}

TEST(PermutationTest, SameSeedSameOrderOtherSeedOther) {
  EXPECT_EQ(Order(1000, 5), Order(1000, 5));
  EXPECT_NE(Order(1000, 5), Order(1000, 6));
}

// All 24 orders of four things, each about as often as the others.
TEST(PermutationTest, SmallOrdersAreEquallyLikely) {
  std::map<std::vector<int64_t>, int> count;
  constexpr int kSeeds = 4800;
  for (int seed = 0; seed < kSeeds; ++seed) ++count[Order(4, seed)];
  EXPECT_EQ(count.size(), 24);
  for (const auto& [order, times] : count) {
    EXPECT_NEAR(times, 200, 70) << ::testing::PrintToString(order);
  }
}

TEST(PermutationTest, ReachesAcrossTheLargestRange) {
  constexpr int64_t kSize = INT64_MAX;
  const Permutation permutation(kSize, 3);
  std::set<int64_t> seen;
  for (int64_t i = 0; i < 1000; ++i) {
    const int64_t value = permutation.At(kSize - 1 - i);
    EXPECT_GE(value, 0);
    EXPECT_LT(value, kSize);
    seen.insert(value);
  }
  EXPECT_EQ(seen.size(), 1000);
}

}  // namespace
}  // namespace cpfeed

#include "core/plan/attention_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>

#include "core/plan/visible_keys.h"

namespace cpfeed {
namespace {

bool Sees(int64_t query, int64_t key, const VisibleKeys& mask) {
  return (mask.left < 0 || key >= query - mask.left) &&
         (mask.right < 0 || key <= query + mask.right);
}

int64_t PairsOneByOne(int64_t begin, int64_t end, int64_t real,
                      const VisibleKeys& mask) {
  int64_t pairs = 0;
  for (int64_t query = begin; query < end; ++query) {
    for (int64_t key = 0; key < real; ++key) pairs += Sees(query, key, mask);
  }
  return pairs;
}

int64_t TilesOneByOne(int64_t begin, int64_t end, int64_t real,
                      const VisibleKeys& mask) {
  int64_t tiles = 0;
  for (int64_t first = begin; first < end; first += kTileSize) {
    std::set<int64_t> seen;
    for (int64_t query = first; query < std::min(first + kTileSize, end);
         ++query) {
      for (int64_t key = 0; key < real; ++key) {
        if (Sees(query, key, mask)) seen.insert(key / kTileSize);
      }
    }
    tiles += static_cast<int64_t>(seen.size());
  }
  return tiles;
}

class AttentionWorkTest : public ::testing::TestWithParam<VisibleKeys> {};

TEST_P(AttentionWorkTest, FormulasAgreeWithCountingOneByOne) {
  constexpr int64_t kReal = 413;
  for (int64_t begin = 0; begin <= kReal; begin += 59) {
    for (const int64_t length : {0, 1, 5, 127, 128, 129, 300}) {
      const int64_t end = std::min(begin + length, kReal);
      EXPECT_EQ(CountPairs(begin, end, kReal, GetParam()),
                PairsOneByOne(begin, end, kReal, GetParam()))
          << begin << " to " << end;
      EXPECT_EQ(CountTiles(begin, end, kReal, GetParam()),
                TilesOneByOne(begin, end, kReal, GetParam()))
          << begin << " to " << end;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Masks, AttentionWorkTest,
    ::testing::Values(VisibleKeys::Causal(), VisibleKeys::Full(),
                      VisibleKeys::Window(0), VisibleKeys::Window(100),
                      VisibleKeys::Window(1000),
                      VisibleKeys{.left = 150, .right = 70},
                      VisibleKeys{.left = -1, .right = 200},
                      VisibleKeys{.left = 30, .right = -1}));

}  // namespace
}  // namespace cpfeed

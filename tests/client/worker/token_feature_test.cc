#include "client/worker/token_feature.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace cpfeed {
namespace {

std::vector<double> Vector(FeatureKind kind, int64_t token, int64_t position,
                           int64_t head) {
  std::vector<double> components;
  for (int64_t c = 0; c < 8; ++c) {
    components.push_back(TokenFeature(kind, token, position, head, c));
  }
  return components;
}

TEST(TokenFeatureTest, EveryArgumentMatters) {
  std::set<std::vector<double>> vectors;
  for (const auto kind :
       {FeatureKind::kQuery, FeatureKind::kKey, FeatureKind::kValue}) {
    for (int64_t token = 0; token < 10; ++token) {
      for (int64_t position = 0; position < 10; ++position) {
        for (int64_t head = 0; head < 4; ++head) {
          vectors.insert(Vector(kind, token, position, head));
        }
      }
    }
  }
  EXPECT_EQ(vectors.size(), 3 * 10 * 10 * 4);
}

TEST(TokenFeatureTest, ValuesAreExactInNarrowFloats) {
  for (int64_t token = 0; token < 1000; ++token) {
    const double value = TokenFeature(FeatureKind::kKey, token, 3, 1, 2);
    EXPECT_GE(value, -1);
    EXPECT_LT(value, 1);
    EXPECT_EQ(value * 128, std::round(value * 128));
  }
}

}  // namespace
}  // namespace cpfeed

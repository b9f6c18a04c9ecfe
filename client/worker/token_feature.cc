#include "client/worker/token_feature.h"

#include <initializer_list>

namespace cpfeed {
namespace {

// Steele, Lea and Flood's SplitMix64 finaliser.
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

double TokenFeature(FeatureKind kind, int64_t token, int64_t position,
                    int64_t head, int64_t component) {
  uint64_t hash = Mix(static_cast<uint64_t>(kind));
  for (const int64_t part : {token, position, head, component}) {
    hash = Mix(hash ^ static_cast<uint64_t>(part));
  }
  return static_cast<double>(hash >> 56) / 128.0 - 1.0;
}

}  // namespace cpfeed

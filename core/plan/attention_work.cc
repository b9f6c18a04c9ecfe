#include "core/plan/attention_work.h"

#include <algorithm>

namespace cpfeed {
namespace {

int64_t CeilTiles(int64_t rows) { return (rows + kTileSize - 1) / kTileSize; }

// The sum of CeilTiles(min(first + i * kTileSize, limit)) over i in [0, n).
// first >= 1.
int64_t SumTileEnds(int64_t first, int64_t n, int64_t limit) {
  const int64_t below =
      first > limit ? 0 : std::min(n, (limit - first) / kTileSize + 1);
  return below * CeilTiles(first) + below * (below - 1) / 2 +
         (n - below) * CeilTiles(limit);
}

// The sum of max(first + i * kTileSize, 0) / kTileSize over i in [0, n).
int64_t SumTileBegins(int64_t first, int64_t n) {
  const int64_t skipped = first >= 0 ? 0 : std::min(n, CeilTiles(-first));
  const int64_t counted = n - skipped;
  const int64_t from = (first + skipped * kTileSize) / kTileSize;
  return counted * from + counted * (counted - 1) / 2;
}

// The sum of VisibleKeys::End over positions [0, n) of `real` tokens.
int64_t SumEnds(int64_t n, int64_t real, const VisibleKeys& mask) {
  if (mask.right < 0) return n * real;
  const int64_t below = std::clamp<int64_t>(real - mask.right, 0, n);
  return below * (below - 1) / 2 + below * (mask.right + 1) +
         (n - below) * real;
}

// The sum of VisibleKeys::First over positions [0, n).
int64_t SumFirsts(int64_t n, const VisibleKeys& mask) {
  if (mask.left < 0 || n <= mask.left) return 0;
  const int64_t above = n - mask.left;
  return above * (above - 1) / 2;
}

}  // namespace

int64_t CountPairs(int64_t begin, int64_t end, int64_t real,
                   const VisibleKeys& mask) {
  if (mask.is_causal()) return (end - begin) * (begin + end + 1) / 2;
  const auto until = [&](int64_t n) {
    return SumEnds(n, real, mask) - SumFirsts(n, mask);
  };
  return until(end) - until(begin);
}

int64_t CountTiles(int64_t begin, int64_t end, int64_t real,
                   const VisibleKeys& mask) {
  if (mask.is_causal()) return CountTiles(begin, end);
  if (end <= begin) return 0;
  const int64_t n = CeilTiles(end - begin);
  int64_t tiles;
  if (mask.right < 0) {
    tiles = n * CeilTiles(real);
  } else {
    // The last tile ends with its last row, the others with their 128th.
    tiles = SumTileEnds(begin + kTileSize + mask.right, n - 1, real) +
            CeilTiles(std::min(end + mask.right, real));
  }
  if (mask.left >= 0) tiles -= SumTileBegins(begin - mask.left, n);
  return tiles;
}

}  // namespace cpfeed

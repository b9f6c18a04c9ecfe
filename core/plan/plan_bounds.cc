#include "core/plan/plan_bounds.h"

#include <algorithm>
#include <cmath>

#include "core/plan/attention_work.h"

namespace cpfeed {
namespace {

// Limits of one rank.
struct Limits {
  double tokens;
  double area;
  int cp_size;
};

// What a causal sequence makes its ranks receive, by area and token limits.
double ByLimits(double length, const Limits& limits) {
  const double full = std::floor(length / limits.tokens);
  const double by_tokens = limits.tokens * full * (full - 1) / 2 +
                           full * (length - full * limits.tokens);
  const double by_area = length * length * length / (4 * limits.area) - length;
  return std::max({0.0, by_tokens, by_area});
}

// The same by bands.
double ByBands(double length, const Limits& limits) {
  double rows = 0;
  for (int j = 1; j < limits.cp_size; ++j) {
    const double square = length * length - 2 * 1.01 * j * limits.area;
    const double end = std::max(square > 0 ? std::sqrt(square) - 1 : 0.0,
                                length - j * limits.tokens);
    if (end <= 0) break;
    rows += end;
  }
  return rows;
}

// The most rows of a causal sequence that a rank can hold that holds the last:
// its row costs `length`, and the lightest others 1, 2, 3, ...
double RowsBesideTheLast(double length, const Limits& limits) {
  const double rest = std::max(0.0, 1.01 * limits.area - length);
  const double others = std::floor((std::sqrt(1 + 8 * rest) - 1) / 2);
  return std::min(limits.tokens, 1 + others);
}

void AddCausal(double length, const Limits& limits, PlanBounds& bounds) {
  bounds.mean_kv_rows += ByLimits(length, limits);
  bounds.mean_kv_band += ByBands(length, limits);
  bounds.max_kv_rows =
      std::max(bounds.max_kv_rows, length - RowsBesideTheLast(length, limits));
}

void AddFull(double length, const Limits& limits, PlanBounds& bounds) {
  const double others = std::ceil(length / limits.tokens) - 1;
  bounds.mean_kv_rows += others * length;
  bounds.mean_kv_band += others * length;
  bounds.max_kv_rows = std::max(bounds.max_kv_rows, length - limits.tokens);
}

}  // namespace

PlanBounds ComputePlanBounds(const PackedLengths& lengths, int cp_size,
                             const VisibleKeys& mask) {
  PlanBounds bounds;
  int64_t tokens = 0;
  int64_t with_tokens = 0;
  double area = 0;
  double tiles = 0;
  double heaviest_row = 0;
  double heaviest_tile = 0;
  for (const int64_t real : lengths.real) {
    if (real == 0) continue;
    tokens += real;
    ++with_tokens;
    area += static_cast<double>(CountPairs(0, real, real, mask));
    tiles += static_cast<double>(CountTiles(0, real, real, mask));
    const auto row =
        static_cast<double>(CountPairs(real - 1, real, real, mask));
    heaviest_row = std::max(heaviest_row, row);
    const auto tile =
        static_cast<double>(CountTiles(real - 1, real, real, mask));
    heaviest_tile = std::max(heaviest_tile, tile);
  }
  bounds.max_tokens = (tokens + cp_size - 1) / cp_size;
  bounds.max_slices = (with_tokens + cp_size - 1) / cp_size;
  bounds.max_tiles = std::max(tiles / cp_size, heaviest_tile);
  if (area == 0) return bounds;
  bounds.area_imbalance = std::max(1.0, heaviest_row / (area / cp_size));
  if (cp_size == 1) return bounds;
  const Limits limits = {.tokens = static_cast<double>(bounds.max_tokens),
                         .area = area / cp_size,
                         .cp_size = cp_size};
  for (const int64_t real : lengths.real) {
    if (real == 0) continue;
    if (mask.is_causal()) AddCausal(static_cast<double>(real), limits, bounds);
    if (mask.is_full()) AddFull(static_cast<double>(real), limits, bounds);
  }
  bounds.mean_kv_rows /= cp_size;
  bounds.mean_kv_band /= cp_size;
  bounds.max_kv_rows = std::max(bounds.max_kv_rows, bounds.mean_kv_band);
  return bounds;
}

}  // namespace cpfeed

#include "core/plan/plan_metrics.h"

#include <algorithm>

#include "core/plan/kv_exchange.h"
#include "core/plan/rank_plan.h"

namespace cpfeed {
namespace {

int64_t CeilTiles(int64_t rows) { return (rows + kTileSize - 1) / kTileSize; }

RankMetrics MeasureRank(const ShardPlan& plan, const RankPlan& rank) {
  RankMetrics metrics;
  metrics.num_tokens = rank.num_tokens;
  metrics.padding_rows = rank.num_tokens;
  metrics.slices = static_cast<int64_t>(rank.segments.size());
  for (const Segment& segment : rank.segments) {
    const int64_t begin = segment.begin;
    const int64_t end = std::min<int64_t>(begin + segment.length,
                                          plan.lengths.real[segment.sequence]);
    if (end <= begin) continue;
    metrics.padding_rows -= end - begin;
    metrics.area += (end - begin) * (begin + end + 1) / 2;
    metrics.tiles += CountTiles(begin, end);
  }
  return metrics;
}

Spread SpreadOf(const std::vector<RankMetrics>& ranks,
                int64_t RankMetrics::*figure) {
  Spread spread;
  double sum = 0;
  for (const RankMetrics& rank : ranks) {
    spread.max = std::max(spread.max, rank.*figure);
    sum += static_cast<double>(rank.*figure);
  }
  spread.mean = sum / static_cast<double>(ranks.size());
  return spread;
}

}  // namespace

int64_t CountTiles(int64_t begin, int64_t end) {
  if (end <= begin) return 0;
  // Query tile i ends at begin + i * kTileSize, so it sees one key tile more
  // than the one before; the last one may be cut short.
  const int64_t whole = (end - begin) / kTileSize;
  const int64_t tiles = whole * CeilTiles(begin) + whole * (whole + 1) / 2;
  return (end - begin) % kTileSize == 0 ? tiles : tiles + CeilTiles(end);
}

PlanMetrics ComputePlanMetrics(const ShardPlan& plan) {
  PlanMetrics metrics;
  metrics.ranks.reserve(plan.ranks.size());
  const std::vector<int64_t> received = CountKvRowsReceived(plan);
  for (size_t r = 0; r < plan.ranks.size(); ++r) {
    RankMetrics rank = MeasureRank(plan, plan.ranks[r]);
    rank.kv_rows_received = received[r];
    metrics.padding_tokens += rank.padding_rows;
    metrics.ranks.push_back(rank);
  }
  metrics.tokens = SpreadOf(metrics.ranks, &RankMetrics::num_tokens);
  metrics.area = SpreadOf(metrics.ranks, &RankMetrics::area);
  metrics.tiles = SpreadOf(metrics.ranks, &RankMetrics::tiles);
  metrics.kv_rows_received =
      SpreadOf(metrics.ranks, &RankMetrics::kv_rows_received);
  metrics.slices = SpreadOf(metrics.ranks, &RankMetrics::slices);
  for (const int64_t real : plan.lengths.real) {
    metrics.unsharded_tiles += CountTiles(0, real);
  }
  return metrics;
}

}  // namespace cpfeed

#include "core/plan/plan_metrics.h"

#include <algorithm>

#include "core/plan/attention_work.h"
#include "core/plan/rank_plan.h"
#include "core/plan/transfer_table.h"

namespace cpfeed {
namespace {

// Behind the last of a segment's rows that hold real tokens.
int64_t RealEnd(const ShardPlan& plan, const Segment& segment) {
  return std::min<int64_t>(segment.begin + segment.length,
                           plan.lengths.real[segment.sequence]);
}

int64_t AreaOf(const ShardPlan& plan, const Segment& segment) {
  const int64_t end = RealEnd(plan, segment);
  if (end <= segment.begin) return 0;
  return CountPairs(segment.begin, end, plan.lengths.real[segment.sequence],
                    plan.spec.mask);
}

RankMetrics MeasureRank(const ShardPlan& plan, const RankPlan& rank) {
  RankMetrics metrics;
  metrics.num_tokens = rank.num_tokens;
  metrics.padding_rows = rank.num_tokens;
  metrics.slices = static_cast<int64_t>(rank.segments.size());
  for (const Segment& segment : rank.segments) {
    const int64_t real = plan.lengths.real[segment.sequence];
    const int64_t begin = segment.begin;
    const int64_t end = RealEnd(plan, segment);
    if (end <= begin) continue;
    metrics.padding_rows -= end - begin;
    metrics.area += AreaOf(plan, segment);
    metrics.tiles += CountTiles(begin, end, real, plan.spec.mask);
  }
  metrics.cost = metrics.area + plan.spec.linear_cost * rank.num_tokens;
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

Spread ComputeAreaSpread(const ShardPlan& plan) {
  std::vector<RankMetrics> ranks(plan.ranks.size());
  for (size_t r = 0; r < ranks.size(); ++r) {
    for (const Segment& segment : plan.ranks[r].segments) {
      ranks[r].area += AreaOf(plan, segment);
    }
  }
  return SpreadOf(ranks, &RankMetrics::area);
}

PlanMetrics ComputePlanMetrics(const ShardPlan& plan) {
  PlanMetrics metrics;
  metrics.ranks.reserve(plan.ranks.size());
  const TransferTable transfers(plan, plan.spec.mask);
  for (size_t r = 0; r < plan.ranks.size(); ++r) {
    RankMetrics rank = MeasureRank(plan, plan.ranks[r]);
    const KvTraffic& traffic = transfers.traffic()[r];
    rank.kv_rows_received = traffic.received;
    rank.kv_rows_sent = traffic.sent;
    rank.kv_rows_sent_once = traffic.sent_once;
    rank.kv_fan_out = traffic.fan_out;
    metrics.padding_tokens += rank.padding_rows;
    metrics.ranks.push_back(rank);
  }
  metrics.tokens = SpreadOf(metrics.ranks, &RankMetrics::num_tokens);
  metrics.area = SpreadOf(metrics.ranks, &RankMetrics::area);
  metrics.cost = SpreadOf(metrics.ranks, &RankMetrics::cost);
  metrics.tiles = SpreadOf(metrics.ranks, &RankMetrics::tiles);
  metrics.kv_rows_received =
      SpreadOf(metrics.ranks, &RankMetrics::kv_rows_received);
  metrics.kv_rows_sent = SpreadOf(metrics.ranks, &RankMetrics::kv_rows_sent);
  metrics.kv_rows_sent_once =
      SpreadOf(metrics.ranks, &RankMetrics::kv_rows_sent_once);
  metrics.slices = SpreadOf(metrics.ranks, &RankMetrics::slices);
  for (const int64_t real : plan.lengths.real) {
    metrics.unsharded_tiles += CountTiles(0, real, real, plan.spec.mask);
  }
  return metrics;
}

}  // namespace cpfeed

#include "server/plan_message.h"

#include <algorithm>

#include "core/plan/plan_bounds.h"
#include "core/plan/plan_metrics.h"
#include "core/wire/sharding_codec.h"

namespace cpfeed {
namespace {

void FillMetrics(const PlanMetrics& metrics, v1::LayoutPlan& proto) {
  v1::PlanMetrics& all = *proto.mutable_metrics();
  all.set_max_tokens(metrics.tokens.max);
  all.set_mean_tokens(metrics.tokens.mean);
  all.set_max_area(static_cast<double>(metrics.area.max));
  all.set_mean_area(metrics.area.mean);
  all.set_area_imbalance(metrics.area.imbalance());
  all.set_padding_tokens(metrics.padding_tokens);
  all.set_max_kv_rows_received(metrics.kv_rows_received.max);
  all.set_mean_kv_rows_received(metrics.kv_rows_received.mean);
  all.set_max_tiles(metrics.tiles.max);
  all.set_mean_tiles(metrics.tiles.mean);
  all.set_max_slices(metrics.slices.max);
  all.set_unsharded_tiles(metrics.unsharded_tiles);
  all.set_max_kv_rows_sent(metrics.kv_rows_sent.max);
  all.set_max_kv_rows_sent_once(metrics.kv_rows_sent_once.max);
  all.set_cost_imbalance(metrics.cost.imbalance());
  for (size_t rank = 0; rank < metrics.ranks.size(); ++rank) {
    const RankMetrics& one = metrics.ranks[rank];
    v1::RankPlan& plan = *proto.add_ranks();
    plan.set_cp_rank(static_cast<int>(rank));
    plan.set_num_tokens(one.num_tokens);
    plan.set_area(static_cast<double>(one.area));
    plan.set_tiles(one.tiles);
    plan.set_kv_rows_received(one.kv_rows_received);
    plan.set_kv_rows_sent(one.kv_rows_sent);
    all.set_max_kv_fan_out(std::max(all.max_kv_fan_out(), one.kv_fan_out));
  }
}

void FillBounds(const PlanBounds& bounds, v1::PlanBounds& proto) {
  proto.set_max_tokens(bounds.max_tokens);
  proto.set_area_imbalance(bounds.area_imbalance);
  proto.set_mean_kv_rows_received(bounds.mean_kv_rows);
  proto.set_mean_kv_rows_received_band(bounds.mean_kv_band);
  proto.set_max_kv_rows_received(bounds.max_kv_rows);
  proto.set_max_tiles(bounds.max_tiles);
  proto.set_max_slices(bounds.max_slices);
}

void FillSegments(const ShardPlan& plan, v1::LayoutPlan& proto) {
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    auto& segments =
        *proto.mutable_ranks(static_cast<int>(rank))->mutable_segments();
    for (const Segment& segment : plan.ranks[rank].segments) {
      segments.Add(segment.sequence);
      segments.Add(segment.begin);
      segments.Add(segment.length);
    }
  }
}

}  // namespace

v1::LayoutPlan PlanToProto(const ShardPlan& plan, bool include_segments) {
  v1::LayoutPlan proto;
  *proto.mutable_sharding() = ShardingToProto(plan.spec);
  proto.set_plan_digest(plan.digest);
  FillMetrics(ComputePlanMetrics(plan), proto);
  FillBounds(ComputePlanBounds(plan.lengths, plan.cp_size, plan.spec.mask),
             *proto.mutable_bounds());
  if (include_segments) FillSegments(plan, proto);
  return proto;
}

}  // namespace cpfeed

#include "server/step_plans.h"

namespace cpfeed {
namespace {

int64_t SegmentsOf(const ShardPlan& plan) {
  size_t segments = 0;
  for (const RankPlan& rank : plan.ranks) segments += rank.segments.size();
  return static_cast<int64_t>(segments);
}

}  // namespace

int64_t StepPlans::Bytes() const {
  size_t numbers = 0;
  for (const ChunkPlan& chunk : chunks) {
    numbers += chunk.lengths.real.size() + chunk.lengths.padded.size() +
               chunk.lengths.row_splits.size();
  }
  return static_cast<int64_t>(sizeof(StepPlans) +
                              chunks.size() * sizeof(ChunkPlan) +
                              numbers * sizeof(int64_t));
}

StepPlans DescribePlans(const PreparedBatch& prepared, int cp_size) {
  StepPlans step{.cp_size = cp_size};
  for (const auto& plan : prepared.plans) {
    ChunkPlan& chunk = step.chunks.emplace_back();
    chunk.lengths = plan->lengths;
    chunk.layout = plan->spec;
    chunk.digest = plan->digest;
    if (SegmentsOf(*plan) > kMostMeasuredSegments) continue;
    chunk.metrics = ComputePlanMetrics(*plan);
    chunk.metrics.ranks = {};
    chunk.bounds =
        ComputePlanBounds(plan->lengths, plan->cp_size, plan->spec.mask);
  }
  return step;
}

}  // namespace cpfeed

#include "server/step_plans.h"

#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/plan/shard_plan.h"

namespace cpfeed {
namespace {

ChunkFigures Measure(const ChunkPlan& chunk, int cp_size) {
  if (chunk.num_segments > kMostMeasuredSegments) return {};
  const absl::StatusOr<ShardPlan> plan =
      PlanShards(chunk.lengths, chunk.layout, cp_size);
  CF_CHECK(plan.ok());  // It was made before.
  ChunkFigures figures{
      .metrics = ComputePlanMetrics(*plan),
      .bounds = ComputePlanBounds(plan->lengths, cp_size, plan->spec.mask)};
  figures.metrics.ranks = {};
  return figures;
}

}  // namespace

const std::vector<ChunkFigures>& StepPlans::figures() const {
  std::call_once(measured_, [this] {
    for (const ChunkPlan& chunk : chunks_) {
      figures_.push_back(Measure(chunk, cp_size_));
    }
  });
  return figures_;
}

int64_t StepPlans::Bytes() const {
  size_t numbers = 0;
  for (const ChunkPlan& chunk : chunks_) {
    numbers += chunk.lengths.real.size() + chunk.lengths.padded.size() +
               chunk.lengths.row_splits.size();
  }
  return static_cast<int64_t>(sizeof(StepPlans) +
                              chunks_.size() *
                                  (sizeof(ChunkPlan) + sizeof(ChunkFigures)) +
                              numbers * sizeof(int64_t));
}

std::vector<ChunkPlan> DescribePlans(const PreparedBatch& prepared) {
  std::vector<ChunkPlan> chunks;
  for (const auto& plan : prepared.plans) {
    chunks.push_back({.lengths = plan->lengths,
                      .layout = plan->spec,
                      .digest = plan->digest,
                      .area_imbalance = ComputeAreaSpread(*plan).imbalance()});
    for (const RankPlan& rank : plan->ranks) {
      chunks.back().num_segments += static_cast<int64_t>(rank.segments.size());
    }
  }
  return chunks;
}

}  // namespace cpfeed

// What a step's plans follow from, and how good they are: small enough to be
// kept when the step's bytes are freed.

#ifndef CPFEED_SERVER_STEP_PLANS_H_
#define CPFEED_SERVER_STEP_PLANS_H_

#include <cstdint>
#include <vector>

#include "core/batch/packed_lengths.h"
#include "core/plan/layout_spec.h"
#include "core/plan/plan_bounds.h"
#include "core/plan/plan_metrics.h"
#include "core/plan/shard_plan.h"
#include "core/shard/prepare_batch.h"

namespace cpfeed {

// A plan is a function of lengths, layout and cp_size: PlanShards makes it
// anew.
struct ChunkPlan {
  PackedLengths lengths;
  LayoutSpec layout;
  uint64_t digest = 0;
  // Plans of more segments than kMostMeasuredSegments are not measured: both
  // are empty then.
  PlanMetrics metrics;  // Without `ranks`.
  PlanBounds bounds;
};

inline constexpr int64_t kMostMeasuredSegments = int64_t{1} << 17;

struct StepPlans {
  int cp_size = 0;
  std::vector<ChunkPlan> chunks;

  // What this holds.
  int64_t Bytes() const;
};

StepPlans DescribePlans(const PreparedBatch& prepared, int cp_size);

}  // namespace cpfeed

#endif  // CPFEED_SERVER_STEP_PLANS_H_

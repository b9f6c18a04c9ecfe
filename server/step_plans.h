// What a step's plans follow from, and how good they are: small enough to be
// kept when the step's bytes are freed.

#ifndef CPFEED_SERVER_STEP_PLANS_H_
#define CPFEED_SERVER_STEP_PLANS_H_

#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "core/batch/packed_lengths.h"
#include "core/plan/layout_spec.h"
#include "core/plan/plan_bounds.h"
#include "core/plan/plan_metrics.h"
#include "core/shard/prepare_batch.h"

namespace cpfeed {

// A plan is a function of lengths, layout and cp_size: PlanShards makes it
// anew.
struct ChunkPlan {
  PackedLengths lengths;
  LayoutSpec layout;
  uint64_t digest = 0;
  int64_t num_segments = 0;  // Of all ranks.
  double area_imbalance = 1;
};

struct ChunkFigures {
  PlanMetrics metrics;  // Without `ranks`.
  PlanBounds bounds;
};

// Chunks of more segments are not measured: their figures are empty.
inline constexpr int64_t kMostMeasuredSegments = int64_t{1} << 17;

// Thread-safe.
class StepPlans {
 public:
  StepPlans(std::vector<ChunkPlan> chunks, int cp_size)
      : cp_size_(cp_size), chunks_(std::move(chunks)) {}

  int cp_size() const { return cp_size_; }
  const std::vector<ChunkPlan>& chunks() const { return chunks_; }

  // One for each chunk. The first call plans and measures, which takes longer
  // than converting the batch did: for those who look, not for every step.
  const std::vector<ChunkFigures>& figures() const;

  // What this holds.
  int64_t Bytes() const;

 private:
  const int cp_size_;
  const std::vector<ChunkPlan> chunks_;
  mutable std::once_flag measured_;
  mutable std::vector<ChunkFigures> figures_;
};

// Linear in sequences and segments.
std::vector<ChunkPlan> DescribePlans(const PreparedBatch& prepared);

}  // namespace cpfeed

#endif  // CPFEED_SERVER_STEP_PLANS_H_

// The way of a batch up to the point where bytes move: validated, converted,
// planned.

#ifndef CPFEED_CORE_SHARD_PREPARE_BATCH_H_
#define CPFEED_CORE_SHARD_PREPARE_BATCH_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "core/batch/packed_batch.h"
#include "core/plan/layout.h"
#include "core/plan/shard_plan.h"
#include "core/thd/thd_batch.h"

namespace cpfeed {

// Ready for ShardExecutor::Execute.
struct PreparedBatch {
  ThdBatch thd;
  std::vector<std::shared_ptr<const ShardPlan>> plans;  // One a chunk.

  // What the shards of all ranks will hold at most, without the batch itself.
  int64_t ShardBytes() const;
};

// Validates `batch`, converts it and plans each of its chunks for `cp_size`
// ranks. `options.pad_rule` is set from the layout. Nothing is allocated per
// token.
//
// Errors:
//   INVALID_ARGUMENT  As ConvertToThd and PlanShards; with several chunks the
//                     message of the latter names the chunk.
absl::StatusOr<PreparedBatch> PrepareBatch(const PackedBatch& batch,
                                           BatchOptions options,
                                           const LayoutSpec& layout,
                                           int cp_size);

}  // namespace cpfeed

#endif  // CPFEED_CORE_SHARD_PREPARE_BATCH_H_

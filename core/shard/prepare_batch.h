// The way of a batch up to the point where bytes move: validated, converted,
// planned.

#ifndef CPFEED_CORE_SHARD_PREPARE_BATCH_H_
#define CPFEED_CORE_SHARD_PREPARE_BATCH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/batch/packed_batch.h"
#include "core/plan/layout.h"
#include "core/plan/plan_cache.h"
#include "core/plan/shard_plan.h"
#include "core/thd/thd_batch.h"

namespace cpfeed {

// Ready for ShardExecutor::Execute.
struct PreparedBatch {
  ThdBatch thd;
  std::vector<std::shared_ptr<const ShardPlan>> plans;  // One a chunk.

  // What the shards of all ranks will hold at most, without the batch itself.
  int64_t ShardBytes() const;

  // What the plans hold.
  int64_t PlanBytes() const;
};

// Is asked for memory before it is taken; its error ends the work.
using ChargeMemory = std::function<absl::Status(int64_t bytes)>;

// Validates `batch`, converts it and plans each of its chunks for `cp_size`
// ranks. `options.pad_rule` is set from the layout. Nothing is allocated per
// token.
//
// `charge`, where given, is asked once, before anything is planned, for what
// plans and shards may take together: a few bytes that auto_pad makes many
// tokens of, or stripes of one token, make plans that are far larger than the
// batch.
//
// `plans`, where given, makes the plans, verifies them and remembers them.
//
// Errors:
//   INVALID_ARGUMENT  As ConvertToThd and PlanShards; with several chunks the
//                     message of the latter names the chunk.
//   INTERNAL          A plan failed the verification of `plans`.
//   Others            Of `charge`.
absl::StatusOr<PreparedBatch> PrepareBatch(
    const PackedBatch& batch, BatchOptions options, const LayoutSpec& layout,
    int cp_size, const ChargeMemory& charge = {}, PlanCache* plans = nullptr);

}  // namespace cpfeed

#endif  // CPFEED_CORE_SHARD_PREPARE_BATCH_H_

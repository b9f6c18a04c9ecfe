// Cuts a converted batch into the shards of all ranks.

#ifndef CPFEED_CORE_SHARD_SHARD_EXECUTOR_H_
#define CPFEED_CORE_SHARD_SHARD_EXECUTOR_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "core/plan/shard_plan.h"
#include "core/shard/shard.h"
#include "core/thd/thd_batch.h"

namespace cpfeed {

// Thread-safe: several batches may be cut at once.
class ShardExecutor {
 public:
  virtual ~ShardExecutor() = default;

  // The shards of every rank, [cp_size]. `plans` has one plan for each chunk
  // of `batch`, all of one cp_size. Shards may share the batch's bytes.
  //
  // Errors:
  //   INVALID_ARGUMENT  The plans do not fit the batch.
  //   INTERNAL          The device failed.
  virtual absl::StatusOr<std::vector<StepShard>> Execute(
      const ThdBatch& batch,
      const std::vector<std::shared_ptr<const ShardPlan>>& plans) const = 0;
};

// On the CPU: one pass over the batch, no allocation per token.
std::unique_ptr<ShardExecutor> MakeCpuShardExecutor();

}  // namespace cpfeed

#endif  // CPFEED_CORE_SHARD_SHARD_EXECUTOR_H_

// Cuts batches on a GPU.

#ifndef CPFEED_CORE_SHARD_CUDA_CUDA_SHARD_EXECUTOR_H_
#define CPFEED_CORE_SHARD_CUDA_CUDA_SHARD_EXECUTOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/shard/cuda/device.h"
#include "core/shard/cuda/device_counts.h"
#include "core/shard/cuda/device_lane.h"
#include "core/shard/cuda/pinned_pool.h"
#include "core/shard/shard_executor.h"

namespace cpfeed {

struct CudaExecutorOptions {
  // Of pinned memory: batches on their way in, and shards until their last
  // holder is done with them.
  int64_t pinned_bytes = int64_t{1} << 30;
  // Called once, from the thread that noticed, when the device is lost.
  std::function<void(const absl::Status&)> on_lost;
};

// Copies a batch to the device, runs one kernel for all tensors of all ranks
// and chunks, and copies the shards back; the bits are those of the CPU
// executor. Two batches at a time are on the device, each on a stream of its
// own, so that the copies of one run beside the kernel of the other.
//
// What the device does not do the CPU does: a batch whose call failed is cut
// there, once, and so is all that comes after the device was lost; nothing is
// submitted to a lost device again. The owner, told by on_lost, then ends the
// process in an orderly way.
class CudaShardExecutor final : public ShardExecutor {
 public:
  // Errors: those of the device.
  static absl::StatusOr<std::unique_ptr<CudaShardExecutor>> Create(
      std::shared_ptr<Device> device, CudaExecutorOptions options);

  absl::StatusOr<std::vector<StepShard>> Execute(
      const ThdBatch& batch,
      const std::vector<std::shared_ptr<const ShardPlan>>& plans)
      const override;

  // The same without help from the CPU.
  //
  // Errors: as Execute, and
  //   INTERNAL            The device failed or is lost (DEVICE_FAILED,
  //                       DEVICE_LOST).
  //   RESOURCE_EXHAUSTED  No pinned memory, or too large for one launch.
  absl::StatusOr<std::vector<StepShard>> ExecuteOnDevice(
      const ThdBatch& batch,
      const std::vector<std::shared_ptr<const ShardPlan>>& plans) const;

  DeviceCounts counts() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  class LaneLease;

  CudaShardExecutor(std::shared_ptr<Device> device,
                    CudaExecutorOptions options);

  bool lost() const ABSL_LOCKS_EXCLUDED(mu_);
  void NoteLost(const absl::Status& why) const ABSL_LOCKS_EXCLUDED(mu_);

  const std::shared_ptr<Device> device_;
  const CudaExecutorOptions options_;
  const std::shared_ptr<PinnedPool> pinned_;
  const std::unique_ptr<ShardExecutor> cpu_;
  mutable absl::Mutex mu_;
  mutable std::vector<std::unique_ptr<DeviceLane>> idle_ ABSL_GUARDED_BY(mu_);
  mutable DeviceCounts counts_ ABSL_GUARDED_BY(mu_);
  mutable bool lost_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_SHARD_CUDA_CUDA_SHARD_EXECUTOR_H_

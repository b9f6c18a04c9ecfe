// One batch on its way through a device.

#ifndef CPFEED_CORE_SHARD_CUDA_DEVICE_BATCH_H_
#define CPFEED_CORE_SHARD_CUDA_DEVICE_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/shard/cuda/device_lane.h"
#include "core/shard/cuda/pinned_pool.h"
#include "core/shard/cuda/shard_task_builder.h"
#include "core/shard/shard.h"
#include "core/thd/thd_batch.h"

namespace cpfeed {

// Where the tensors of a batch and of its shards are, and their way there and
// back. The batch and the shards, which have no tensors yet, outlive it.
class DeviceBatch {
 public:
  DeviceBatch(const ThdBatch& batch, const std::vector<StepShard>& shards);

  // Cuts the batch on `lane`, which is idle before and after, also where it
  // fails: copies it there, runs the kernel, and copies the shards back.
  //
  // Errors:
  //   INTERNAL            The device failed or is lost.
  //   RESOURCE_EXHAUSTED  No pinned memory, or too large for one launch.
  absl::Status Run(PinnedPool& pinned, DeviceLane& lane);

  // Moves the tensors into `shards`, those that the constructor was given,
  // after Run. They share one block of pinned memory.
  void TakeTensors(std::vector<StepShard>& shards);

  // Of a Run that ended well.
  int64_t to_device_bytes() const { return to_device_bytes_; }
  int64_t from_device_bytes() const { return out_bytes_; }
  absl::Duration kernel_time() const { return kernel_time_; }

 private:
  absl::Status BuildTask(std::byte* arena);
  absl::Status Queue(const PinnedPool::Block& in, std::byte* arena,
                     std::byte* descriptors, DeviceLane& lane);

  const ThdBatch& batch_;
  const std::vector<StepShard>& shards_;
  std::vector<int64_t> inputs_;   // Offset of each tensor of the batch.
  std::vector<int64_t> outputs_;  // [rank][chunk][tensor], offset behind them.
  int64_t in_bytes_ = 0;
  int64_t out_bytes_ = 0;
  int64_t to_device_bytes_ = 0;
  absl::Duration kernel_time_;
  ShardTaskBuilder task_;
  PinnedPool::Block out_;
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_SHARD_CUDA_DEVICE_BATCH_H_

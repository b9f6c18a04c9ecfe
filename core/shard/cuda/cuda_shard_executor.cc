#include "core/shard/cuda/cuda_shard_executor.h"

#include <utility>

#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/shard/cuda/device_batch.h"
#include "core/shard/step_shards.h"

namespace cpfeed {
namespace {

// Successive batches: one is copied while the kernel of the other runs.
constexpr int kLanes = 2;

}  // namespace

// A lane, waited for, and given back at the end.
class CudaShardExecutor::LaneLease {
 public:
  explicit LaneLease(const CudaShardExecutor& executor) : executor_(executor) {
    absl::MutexLock lock(&executor_.mu_);
    executor_.mu_.Await(absl::Condition(
        +[](std::vector<std::unique_ptr<DeviceLane>>* idle) {
          return !idle->empty();
        },
        &executor_.idle_));
    lane_ = std::move(executor_.idle_.back());
    executor_.idle_.pop_back();
  }
  ~LaneLease() {
    absl::MutexLock lock(&executor_.mu_);
    executor_.idle_.push_back(std::move(lane_));
  }
  LaneLease(const LaneLease&) = delete;
  LaneLease& operator=(const LaneLease&) = delete;

  DeviceLane& lane() { return *lane_; }

 private:
  const CudaShardExecutor& executor_;
  std::unique_ptr<DeviceLane> lane_;
};

CudaShardExecutor::CudaShardExecutor(std::shared_ptr<Device> device,
                                     CudaExecutorOptions options)
    : device_(std::move(device)),
      options_(std::move(options)),
      pinned_(PinnedPool::Create(device_, options_.pinned_bytes)),
      cpu_(MakeCpuShardExecutor()) {}

absl::StatusOr<std::unique_ptr<CudaShardExecutor>> CudaShardExecutor::Create(
    std::shared_ptr<Device> device, CudaExecutorOptions options) {
  std::unique_ptr<CudaShardExecutor> executor(
      new CudaShardExecutor(std::move(device), std::move(options)));
  for (int i = 0; i < kLanes; ++i) {
    CF_ASSIGN_OR_RETURN(std::unique_ptr<DeviceLane> lane,
                        DeviceLane::Create(executor->device_));
    absl::MutexLock lock(&executor->mu_);
    executor->idle_.push_back(std::move(lane));
  }
  return executor;
}

absl::StatusOr<std::vector<StepShard>> CudaShardExecutor::Execute(
    const ThdBatch& batch,
    const std::vector<std::shared_ptr<const ShardPlan>>& plans) const {
  absl::StatusOr<std::vector<StepShard>> shards = ExecuteOnDevice(batch, plans);
  if (shards.ok() || absl::IsInvalidArgument(shards.status())) return shards;
  {
    absl::MutexLock lock(&mu_);
    ++counts_.fallbacks[ReasonOf(shards.status())];
  }
  return cpu_->Execute(batch, plans);
}

absl::StatusOr<std::vector<StepShard>> CudaShardExecutor::ExecuteOnDevice(
    const ThdBatch& batch,
    const std::vector<std::shared_ptr<const ShardPlan>>& plans) const {
  CF_ASSIGN_OR_RETURN(std::vector<StepShard> shards,
                      StepShardsWithoutTensors(batch, plans));
  DeviceBatch work(batch, shards);
  {
    LaneLease lease(*this);
    if (lost()) {
      return MakeError(absl::StatusCode::kInternal, kDeviceLost,
                       "the device was lost before");
    }
    const absl::Status ran = work.Run(*pinned_, lease.lane());
    // Before another thread gets the lane.
    if (ReasonOf(ran) == kDeviceLost) NoteLost(ran);
    CF_RETURN_IF_ERROR(ran);
  }
  work.TakeTensors(shards);
  CountLabelsOfStep(shards);
  absl::MutexLock lock(&mu_);
  ++counts_.batches;
  counts_.to_device_bytes += work.to_device_bytes();
  counts_.from_device_bytes += work.from_device_bytes();
  counts_.kernel_time += work.kernel_time();
  return shards;
}

DeviceCounts CudaShardExecutor::counts() const {
  absl::MutexLock lock(&mu_);
  return counts_;
}

bool CudaShardExecutor::lost() const {
  absl::MutexLock lock(&mu_);
  return lost_;
}

void CudaShardExecutor::NoteLost(const absl::Status& why) const {
  {
    absl::MutexLock lock(&mu_);
    if (lost_) return;
    lost_ = true;
  }
  if (options_.on_lost) options_.on_lost(why);
}

}  // namespace cpfeed

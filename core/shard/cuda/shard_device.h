// Which executor a process cuts batches with: on the CPU or on a GPU.

#ifndef CPFEED_CORE_SHARD_CUDA_SHARD_DEVICE_H_
#define CPFEED_CORE_SHARD_CUDA_SHARD_DEVICE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/shard/cuda/cuda_shard_executor.h"
#include "core/shard/cuda/device.h"
#include "core/shard/shard_executor.h"

namespace cpfeed {

enum class DeviceChoice {
  kAuto,  // A GPU where there is one and it is measured to be faster.
  kCpu,
  kCuda,  // A GPU, or an error.
};

// "auto", "cpu" or "cuda".
//
// Errors:
//   INVALID_ARGUMENT  Any other word.
absl::StatusOr<DeviceChoice> ParseDeviceChoice(absl::string_view word);

struct ShardDeviceOptions {
  DeviceChoice choice = DeviceChoice::kCpu;
  int cuda_device = 0;  // Of those that the process sees.
  CudaExecutorOptions cuda;
};

struct ShardDevice {
  std::unique_ptr<ShardExecutor> executor;
  // The executor, where it is a GPU's; else null.
  const CudaShardExecutor* cuda = nullptr;
  // What was chosen and why, for a log: "cpu: no CUDA device: ...".
  std::string why;
};

// Opens what `options` choose. With kAuto a pack of 64 Ki tokens for 8 ranks is
// cut some times on both, and the faster one is taken; a GPU that fails is not.
//
// Errors, with kCuda alone: those of OpenCudaDevice and CudaShardExecutor.
absl::StatusOr<ShardDevice> OpenShardDevice(const ShardDeviceOptions& options);

// The same for a device that was opened, or could not be.
absl::StatusOr<ShardDevice> ChooseShardDevice(
    const ShardDeviceOptions& options,
    const absl::StatusOr<std::shared_ptr<Device>>& device);

}  // namespace cpfeed

#endif  // CPFEED_CORE_SHARD_CUDA_SHARD_DEVICE_H_

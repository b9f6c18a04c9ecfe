// One stream of a device with the memory that it works in.

#ifndef CPFEED_CORE_SHARD_CUDA_DEVICE_LANE_H_
#define CPFEED_CORE_SHARD_CUDA_DEVICE_LANE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/shard/cuda/device.h"

namespace cpfeed {

// Used by one thread at a time.
class DeviceLane {
 public:
  // Errors: those of the device.
  static absl::StatusOr<std::unique_ptr<DeviceLane>> Create(
      std::shared_ptr<Device> device);
  ~DeviceLane();
  DeviceLane(const DeviceLane&) = delete;
  DeviceLane& operator=(const DeviceLane&) = delete;

  // What the lane's device memory is for.
  enum class Use { kTensors, kDescriptors };

  // At least `bytes` bytes of device memory, which stay until the next call for
  // the same use. The stream must be idle.
  absl::StatusOr<std::byte*> Memory(Use use, int64_t bytes);

  Device& device() const { return *device_; }
  DeviceStream stream() const { return stream_; }
  DeviceEvent kernel_begin() const { return kernel_begin_; }
  DeviceEvent kernel_end() const { return kernel_end_; }
  DeviceEvent done() const { return done_; }

 private:
  explicit DeviceLane(std::shared_ptr<Device> device)
      : device_(std::move(device)) {}

  const std::shared_ptr<Device> device_;
  DeviceStream stream_;
  DeviceEvent kernel_begin_;
  DeviceEvent kernel_end_;
  DeviceEvent done_;
  struct Arena {
    std::byte* memory = nullptr;
    int64_t bytes = 0;
  };
  Arena arenas_[2];  // By Use.
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_SHARD_CUDA_DEVICE_LANE_H_

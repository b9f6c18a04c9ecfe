// What sharding needs of a GPU: a thin interface over the CUDA runtime.
//
// The CUDA one is in cuda_device.h. Everything built on this interface is plain
// C++, so that it is tested where there is no GPU.

#ifndef CPFEED_CORE_SHARD_CUDA_DEVICE_H_
#define CPFEED_CORE_SHARD_CUDA_DEVICE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/shard/cuda/shard_task.h"

namespace cpfeed {

// Reasons of what a device's calls return, all of code INTERNAL.
//
// The call failed, the device works: out of memory, for example.
inline constexpr char kDeviceFailed[] = "DEVICE_FAILED";
// The context is gone (CUDA calls such errors sticky): every later call of the
// process fails too, and only a new process can use the device again.
inline constexpr char kDeviceLost[] = "DEVICE_LOST";

// Work in order: a cudaStream_t.
struct DeviceStream {
  void* handle = nullptr;
};

// A point in a stream: a cudaEvent_t.
struct DeviceEvent {
  void* handle = nullptr;
};

// One device. Thread-safe. Calls that queue work return at once; what they
// refer to must live until the stream has passed it. Errors of the work itself
// come out of whichever call is next.
class Device {
 public:
  virtual ~Device() = default;

  // "NVIDIA H100 80GB HBM3 (device 0)".
  virtual std::string name() const = 0;

  // Memory of the device, aligned to 256 bytes.
  virtual absl::StatusOr<void*> Allocate(int64_t bytes) = 0;
  virtual void Free(void* memory) = 0;

  // Memory of the host that the device copies from and to by itself. It takes
  // long: pool it.
  virtual absl::StatusOr<void*> AllocatePinned(int64_t bytes) = 0;
  virtual void FreePinned(void* memory) = 0;

  virtual absl::StatusOr<DeviceStream> CreateStream() = 0;
  virtual void DestroyStream(DeviceStream stream) = 0;
  virtual absl::StatusOr<DeviceEvent> CreateEvent() = 0;
  virtual void DestroyEvent(DeviceEvent event) = 0;

  // Queues a copy. Either side may be the device's or the host's memory; only
  // pinned memory makes it run beside other work.
  virtual absl::Status Copy(void* to, const void* from, int64_t bytes,
                            DeviceStream stream) = 0;
  // Queues the sharding kernel.
  virtual absl::Status Launch(const ShardTask& task, DeviceStream stream) = 0;
  virtual absl::Status Record(DeviceEvent event, DeviceStream stream) = 0;

  // Waits until the stream has passed the event.
  virtual absl::Status Wait(DeviceEvent event) = 0;
  // Waits until the stream is idle.
  virtual absl::Status Synchronize(DeviceStream stream) = 0;
  // Between two events that were waited for.
  virtual absl::StatusOr<absl::Duration> Elapsed(DeviceEvent begin,
                                                 DeviceEvent end) = 0;
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_SHARD_CUDA_DEVICE_H_

// What the sharding on a device has done, for metrics.

#ifndef CPFEED_CORE_SHARD_CUDA_DEVICE_COUNTS_H_
#define CPFEED_CORE_SHARD_CUDA_DEVICE_COUNTS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/time/time.h"

namespace cpfeed {

struct DeviceCounts {
  int64_t batches = 0;          // Cut on the device.
  int64_t to_device_bytes = 0;  // Of batches and descriptors.
  int64_t from_device_bytes = 0;
  absl::Duration kernel_time;  // As the device measured it.
  // Batches that were cut on the CPU, by reason: DEVICE_FAILED, DEVICE_LOST,
  // MEMORY_PRESSURE (no pinned memory left) or NOT_SUPPORTED (too large).
  std::map<std::string, int64_t> fallbacks;
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_SHARD_CUDA_DEVICE_COUNTS_H_

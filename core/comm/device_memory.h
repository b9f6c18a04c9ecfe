// What communicators need to know of a device's memory.

#ifndef CPFEED_CORE_COMM_DEVICE_MEMORY_H_
#define CPFEED_CORE_COMM_DEVICE_MEMORY_H_

#include <cstddef>
#include <functional>

#include "absl/status/status.h"

namespace cpfeed {

struct DeviceMemory {
  // Whether the address is a device's.
  std::function<bool(const void* address)> is_device;
  // Copies between any two memories when the work that the caller has queued
  // on its stream is done, and returns when it is copied.
  std::function<absl::Status(void* to, const void* from, size_t bytes)> copy;
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_COMM_DEVICE_MEMORY_H_

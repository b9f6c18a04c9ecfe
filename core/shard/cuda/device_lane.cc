#include "core/shard/cuda/device_lane.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

constexpr int64_t kLeastArena = 1 << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceLane>> DeviceLane::Create(
    std::shared_ptr<Device> device) {
  std::unique_ptr<DeviceLane> lane(new DeviceLane(std::move(device)));
  Device& gpu = *lane->device_;
  CF_ASSIGN_OR_RETURN(lane->stream_, gpu.CreateStream());
  CF_ASSIGN_OR_RETURN(lane->kernel_begin_, gpu.CreateEvent());
  CF_ASSIGN_OR_RETURN(lane->kernel_end_, gpu.CreateEvent());
  CF_ASSIGN_OR_RETURN(lane->done_, gpu.CreateEvent());
  return lane;
}

DeviceLane::~DeviceLane() {
  for (const Arena& arena : arenas_) {
    if (arena.memory != nullptr) device_->Free(arena.memory);
  }
  for (const DeviceEvent event : {kernel_begin_, kernel_end_, done_}) {
    if (event.handle != nullptr) device_->DestroyEvent(event);
  }
  if (stream_.handle != nullptr) device_->DestroyStream(stream_);
}

absl::StatusOr<std::byte*> DeviceLane::Memory(Use use, int64_t bytes) {
  Arena& arena = arenas_[static_cast<int>(use)];
  if (bytes <= arena.bytes) return arena.memory;
  if (arena.memory != nullptr) device_->Free(arena.memory);
  arena = {};
  const auto size = static_cast<int64_t>(
      std::bit_ceil(static_cast<uint64_t>(std::max(bytes, kLeastArena))));
  CF_ASSIGN_OR_RETURN(void* const memory, device_->Allocate(size));
  arena = {static_cast<std::byte*>(memory), size};
  return arena.memory;
}

}  // namespace cpfeed

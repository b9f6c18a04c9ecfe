// What a build without --config=cuda has in place of nccl_communicator.cc.

#include <cstring>

#include "core/base/error.h"
#include "core/comm/nccl_communicator.h"

namespace cpfeed {

absl::StatusOr<std::unique_ptr<Communicator>> JoinNcclGroup(
    const std::shared_ptr<RendezvousStore>& /*store*/,
    const NcclOptions& /*options*/) {
  return MakeError(absl::StatusCode::kUnimplemented, kNotSupported,
                   "this program was built without NCCL; build it with "
                   "--config=cuda");
}

DeviceMemory CudaDeviceMemory(ComputeStream /*compute_stream*/) {
  return {.is_device = [](const void*) { return false; },
          .copy =
              [](void* to, const void* from, size_t bytes) {
                std::memcpy(to, from, bytes);
                return absl::OkStatus();
              }};
}

}  // namespace cpfeed

// What a build without --config=cuda has in place of cuda_device.cc.

#include "core/base/error.h"
#include "core/shard/cuda/cuda_device.h"

namespace cpfeed {

absl::StatusOr<std::shared_ptr<Device>> OpenCudaDevice(int /*number*/) {
  return MakeError(absl::StatusCode::kUnimplemented, kNotSupported,
                   "this program was built without CUDA; build it with "
                   "--config=cuda");
}

}  // namespace cpfeed

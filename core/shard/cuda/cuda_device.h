// A GPU by the CUDA runtime.

#ifndef CPFEED_CORE_SHARD_CUDA_CUDA_DEVICE_H_
#define CPFEED_CORE_SHARD_CUDA_CUDA_DEVICE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "core/shard/cuda/device.h"

namespace cpfeed {

// Opens device `number` of those that the process sees.
//
// Errors:
//   UNIMPLEMENTED     The program was built without --config=cuda (reason
//                     NOT_SUPPORTED).
//   UNAVAILABLE       There is no driver or no device (reason NOT_SUPPORTED),
//                     or it does not answer.
//   INVALID_ARGUMENT  `number` is none of them (reason BAD_OPTION).
absl::StatusOr<std::shared_ptr<Device>> OpenCudaDevice(int number);

}  // namespace cpfeed

#endif  // CPFEED_CORE_SHARD_CUDA_CUDA_DEVICE_H_

// Where a rank computes.

#ifndef CPFEED_CLIENT_WORKER_WORKER_DEVICE_H_
#define CPFEED_CLIENT_WORKER_WORKER_DEVICE_H_

#include <c10/core/Device.h>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cpfeed {

// `word` is cpu, cuda, or auto: a GPU where the program was built for one and
// sees one. `number` is that of the GPU.
//
// Errors:
//   INVALID_ARGUMENT  Another word, or no such GPU.
//   UNIMPLEMENTED     cuda in a program without (reason NOT_SUPPORTED).
//   UNAVAILABLE       cuda where there is no GPU (reason NOT_SUPPORTED).
absl::StatusOr<c10::Device> ChooseWorkerDevice(absl::string_view word,
                                               int number);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_WORKER_DEVICE_H_

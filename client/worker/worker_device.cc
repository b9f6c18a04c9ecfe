#include "client/worker/worker_device.h"

#include <ATen/detail/CUDAHooksInterface.h>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"

namespace cpfeed {

absl::StatusOr<c10::Device> ChooseWorkerDevice(absl::string_view word,
                                               int number) {
  if (word != "auto" && word != "cpu" && word != "cuda") {
    return InvalidArgument(
        kBadOption,
        absl::StrCat("device is \"", word, "\"; must be auto, cpu or cuda"));
  }
  if (word == "cpu") return c10::Device(c10::kCPU);
  // Without libtorch_cuda.so these are answers of a stand-in.
  const at::CUDAHooksInterface& cuda = at::detail::getCUDAHooks();
  const int count = cuda.hasCUDA() ? static_cast<int>(cuda.deviceCount()) : 0;
  if (count == 0 && word == "auto") return c10::Device(c10::kCPU);
  if (count == 0) {
    return cuda.hasCUDART()
               ? MakeError(absl::StatusCode::kUnavailable, kNotSupported,
                           "no CUDA device: LibTorch sees none")
               : MakeError(absl::StatusCode::kUnimplemented, kNotSupported,
                           "this program was built without CUDA; build it "
                           "with --config=cuda");
  }
  if (number < 0 || number >= count) {
    return InvalidArgument(
        kBadOption, absl::StrCat("CUDA device is ", number, "; must be in [0, ",
                                 count, ")"));
  }
  return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(number));
}

}  // namespace cpfeed

// Owners of what CUDA and NCCL hand out, and their errors as statuses.

#ifndef CPFEED_CORE_COMM_NCCL_HANDLES_H_
#define CPFEED_CORE_COMM_NCCL_HANDLES_H_

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/status_macros.h"

namespace cpfeed {

inline absl::Status CudaStatus(cudaError_t error, absl::string_view call) {
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("CUDA: ", call, " failed: ", cudaGetErrorString(error)));
}

inline absl::Status NcclStatus(ncclResult_t result, absl::string_view call) {
  if (result == ncclSuccess || result == ncclInProgress) {
    return absl::OkStatus();
  }
  return absl::InternalError(
      absl::StrCat("NCCL: ", call, " failed: ", ncclGetErrorString(result)));
}

struct StreamDeleter {
  void operator()(cudaStream_t stream) const {
    (void)cudaStreamDestroy(stream);
  }
};
using OwnedStream =
    std::unique_ptr<std::remove_pointer_t<cudaStream_t>, StreamDeleter>;

struct EventDeleter {
  void operator()(cudaEvent_t event) const { (void)cudaEventDestroy(event); }
};
using OwnedEvent =
    std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, EventDeleter>;

inline absl::StatusOr<OwnedStream> NewStream() {
  cudaStream_t stream = nullptr;
  CF_RETURN_IF_ERROR(
      CudaStatus(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                 "cudaStreamCreate"));
  return OwnedStream(stream);
}

// Of ordering alone: it takes no time.
inline absl::StatusOr<OwnedEvent> NewEvent() {
  cudaEvent_t event = nullptr;
  CF_RETURN_IF_ERROR(
      CudaStatus(cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
                 "cudaEventCreate"));
  return OwnedEvent(event);
}

// Device memory that is allocated, used and freed in the order of a stream.
class StreamBytes {
 public:
  static absl::StatusOr<StreamBytes> Allocate(size_t bytes,
                                              cudaStream_t stream) {
    void* memory = nullptr;
    CF_RETURN_IF_ERROR(
        CudaStatus(cudaMallocAsync(&memory, bytes, stream), "cudaMallocAsync"));
    return StreamBytes(memory, stream);
  }
  StreamBytes(StreamBytes&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)),
        stream_(other.stream_) {}
  StreamBytes& operator=(StreamBytes&&) = delete;
  ~StreamBytes() {
    if (memory_ != nullptr) (void)cudaFreeAsync(memory_, stream_);
  }

  void* get() const { return memory_; }

 private:
  StreamBytes(void* memory, cudaStream_t stream)
      : memory_(memory), stream_(stream) {}

  void* memory_;
  const cudaStream_t stream_;
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_COMM_NCCL_HANDLES_H_

#include "core/shard/cuda/cuda_device.h"

#include <cuda_runtime_api.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/shard/cuda/shard_kernel.h"

namespace cpfeed {
namespace {

cudaStream_t Handle(DeviceStream stream) {
  return static_cast<cudaStream_t>(stream.handle);
}

cudaEvent_t Handle(DeviceEvent event) {
  return static_cast<cudaEvent_t>(event.handle);
}

// Errors of a context that is gone stay; asking again tells them from others.
bool IsSticky() {
  (void)cudaGetLastError();  // Takes back what is no sticky error.
  return cudaDeviceSynchronize() != cudaSuccess;
}

absl::Status CudaError(absl::string_view call, cudaError_t error, int device) {
  const bool lost = IsSticky();
  return MakeError(
      absl::StatusCode::kInternal, lost ? kDeviceLost : kDeviceFailed,
      absl::StrCat("CUDA: ", call, " failed: ", cudaGetErrorString(error), " (",
                   cudaGetErrorName(error), "); device ", device,
                   lost ? " is lost" : " still works"));
}

class CudaDevice final : public Device {
 public:
  CudaDevice(int number, std::string name)
      : number_(number), name_(std::move(name)) {}

  std::string name() const override { return name_; }

  absl::StatusOr<void*> Allocate(int64_t bytes) override {
    void* memory = nullptr;
    CF_RETURN_IF_ERROR(Call("cudaMalloc", [&] {
      return cudaMalloc(&memory, static_cast<size_t>(bytes));
    }));
    return memory;
  }
  void Free(void* memory) override {
    (void)Call("cudaFree", [&] { return cudaFree(memory); });
  }

  absl::StatusOr<void*> AllocatePinned(int64_t bytes) override {
    void* memory = nullptr;
    CF_RETURN_IF_ERROR(Call("cudaHostAlloc", [&] {
      return cudaHostAlloc(&memory, static_cast<size_t>(bytes),
                           cudaHostAllocDefault);
    }));
    return memory;
  }
  void FreePinned(void* memory) override {
    (void)Call("cudaFreeHost", [&] { return cudaFreeHost(memory); });
  }

  absl::StatusOr<DeviceStream> CreateStream() override {
    cudaStream_t stream = nullptr;
    CF_RETURN_IF_ERROR(Call("cudaStreamCreate", [&] {
      return cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    }));
    return DeviceStream{stream};
  }
  void DestroyStream(DeviceStream stream) override {
    (void)Call("cudaStreamDestroy",
               [&] { return cudaStreamDestroy(Handle(stream)); });
  }

  absl::StatusOr<DeviceEvent> CreateEvent() override {
    cudaEvent_t event = nullptr;
    CF_RETURN_IF_ERROR(
        Call("cudaEventCreate", [&] { return cudaEventCreate(&event); }));
    return DeviceEvent{event};
  }
  void DestroyEvent(DeviceEvent event) override {
    (void)Call("cudaEventDestroy",
               [&] { return cudaEventDestroy(Handle(event)); });
  }

  absl::Status Copy(void* to, const void* from, int64_t bytes,
                    DeviceStream stream) override {
    return Call("cudaMemcpyAsync", [&] {
      return cudaMemcpyAsync(to, from, static_cast<size_t>(bytes),
                             cudaMemcpyDefault, Handle(stream));
    });
  }
  absl::Status Launch(const ShardTask& task, DeviceStream stream) override {
    return Call("sharding kernel", [&] {
      return static_cast<cudaError_t>(LaunchShardKernel(task, stream.handle));
    });
  }
  absl::Status Record(DeviceEvent event, DeviceStream stream) override {
    return Call("cudaEventRecord",
                [&] { return cudaEventRecord(Handle(event), Handle(stream)); });
  }

  absl::Status Wait(DeviceEvent event) override {
    return Call("cudaEventSynchronize",
                [&] { return cudaEventSynchronize(Handle(event)); });
  }
  absl::Status Synchronize(DeviceStream stream) override {
    return Call("cudaStreamSynchronize",
                [&] { return cudaStreamSynchronize(Handle(stream)); });
  }
  absl::StatusOr<absl::Duration> Elapsed(DeviceEvent begin,
                                         DeviceEvent end) override {
    float milliseconds = 0;
    CF_RETURN_IF_ERROR(Call("cudaEventElapsedTime", [&] {
      return cudaEventElapsedTime(&milliseconds, Handle(begin), Handle(end));
    }));
    return absl::Milliseconds(milliseconds);
  }

 private:
  // The current device is a thread's own.
  template <class F>
  absl::Status Call(absl::string_view what, F call) const {
    cudaError_t error = cudaSetDevice(number_);
    if (error != cudaSuccess) return CudaError("cudaSetDevice", error, number_);
    error = call();
    if (error != cudaSuccess) return CudaError(what, error, number_);
    return absl::OkStatus();
  }

  const int number_;
  const std::string name_;
};

absl::Status Unavailable(absl::string_view call, cudaError_t error) {
  return MakeError(
      absl::StatusCode::kUnavailable, kNotSupported,
      absl::StrCat("no CUDA device: ", call, ": ", cudaGetErrorString(error)));
}

}  // namespace

absl::StatusOr<std::shared_ptr<Device>> OpenCudaDevice(int number) {
  int count = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) return Unavailable("cudaGetDeviceCount", error);
  if (number < 0 || number >= count) {
    return InvalidArgument(
        kBadOption, absl::StrCat("CUDA device is ", number, "; must be in [0, ",
                                 count, ")"));
  }
  cudaDeviceProp properties;
  error = cudaGetDeviceProperties(&properties, number);
  if (error != cudaSuccess) {
    return Unavailable("cudaGetDeviceProperties", error);
  }
  error = cudaSetDevice(number);
  // Makes the context, which takes long, and shows whether it can be made.
  if (error == cudaSuccess) error = cudaFree(nullptr);
  if (error != cudaSuccess) return Unavailable("cudaSetDevice", error);
  return std::make_shared<CudaDevice>(
      number, absl::StrCat(properties.name, " (device ", number, ")"));
}

}  // namespace cpfeed

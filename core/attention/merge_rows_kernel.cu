#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/attention/merge_rows_kernel.h"

namespace cpfeed {
namespace {

template <class T>
__global__ void __launch_bounds__(kMergeThreads)
    MergeRowsKernel(MergeRowsTask<T> task) {
  const int64_t thread =
      static_cast<int64_t>(blockIdx.x) * kMergeThreads + threadIdx.x;
  const MergeWeights<T> weights = ReadMergeWeights(task, thread / kMergeWarp);
  __syncwarp();
  WriteMerged(task, weights, static_cast<int>(thread % kMergeWarp));
}

template <class T>
int Launch(const MergeRowsTask<T>& task, void* stream) {
  const int64_t pairs = task.num_rows * task.heads;
  if (pairs == 0 || task.head_dim == 0) return cudaSuccess;
  constexpr int64_t kPairs = kMergeThreads / kMergeWarp;
  const int64_t blocks = (pairs + kPairs - 1) / kPairs;
  if (blocks > INT32_MAX) return cudaErrorInvalidConfiguration;
  MergeRowsKernel<T><<<static_cast<unsigned>(blocks), kMergeThreads, 0,
                       static_cast<cudaStream_t>(stream)>>>(task);
  return cudaGetLastError();
}

}  // namespace

int LaunchMergeRows(const MergeRowsTask<float>& task, void* stream) {
  return Launch(task, stream);
}

int LaunchMergeRows(const MergeRowsTask<double>& task, void* stream) {
  return Launch(task, stream);
}

}  // namespace cpfeed

#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>
#include <cuda_runtime_api.h>

#include "core/attention/merge_rows_kernel.h"
#include "core/attention/merge_rows_launch.h"

namespace cpfeed {
namespace {

template <class T>
void Queue(const MergeRowsTask<T>& task) {
  const auto error = static_cast<cudaError_t>(
      LaunchMergeRows(task, c10::cuda::getCurrentCUDAStream().stream()));
  TORCH_CHECK(error == cudaSuccess,
              "merging kernel failed: ", cudaGetErrorString(error));
}

}  // namespace

void QueueMergeRows(const MergeRowsTask<float>& task) { Queue(task); }
void QueueMergeRows(const MergeRowsTask<double>& task) { Queue(task); }

}  // namespace cpfeed

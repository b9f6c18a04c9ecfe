#include <cuda_runtime_api.h>

#include "core/shard/cuda/shard_kernel.h"
#include "core/shard/cuda/shard_task.h"
#include "core/shard/cuda/shard_thread.h"

namespace cpfeed {
namespace {

__global__ void __launch_bounds__(kShardThreads) ShardKernel(ShardTask task) {
  RunShardThread(task, static_cast<int32_t>(blockIdx.x),
                 static_cast<int>(threadIdx.x), kShardThreads);
}

}  // namespace

int LaunchShardKernel(const ShardTask& task, void* stream) {
  if (task.num_tiles == 0) return cudaSuccess;
  ShardKernel<<<static_cast<unsigned>(task.num_tiles), kShardThreads, 0,
                static_cast<cudaStream_t>(stream)>>>(task);
  return cudaGetLastError();
}

}  // namespace cpfeed

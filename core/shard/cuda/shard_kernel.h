// The sharding kernel on a GPU.

#ifndef CPFEED_CORE_SHARD_CUDA_SHARD_KERNEL_H_
#define CPFEED_CORE_SHARD_CUDA_SHARD_KERNEL_H_

#include "core/shard/cuda/shard_task.h"

namespace cpfeed {

// Queues one launch for the whole task on `stream` (a cudaStream_t) of the
// current device. The caller keeps what the task refers to until it has run.
// Returns a cudaError_t. A task without tiles launches nothing.
int LaunchShardKernel(const ShardTask& task, void* stream);

}  // namespace cpfeed

#endif  // CPFEED_CORE_SHARD_CUDA_SHARD_KERNEL_H_

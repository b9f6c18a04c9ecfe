// The sharding kernel on the host: the GPU's source, blocks and threads as
// loops.

#ifndef CPFEED_CORE_SHARD_CUDA_HOST_SHARD_KERNEL_H_
#define CPFEED_CORE_SHARD_CUDA_HOST_SHARD_KERNEL_H_

#include "core/shard/cuda/shard_task.h"

namespace cpfeed {

// Runs the task, whose addresses are the host's.
void RunShardTaskOnHost(const ShardTask& task);

}  // namespace cpfeed

#endif  // CPFEED_CORE_SHARD_CUDA_HOST_SHARD_KERNEL_H_

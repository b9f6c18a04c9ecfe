#include "core/shard/cuda/host_shard_kernel.h"

#include <cstdint>

#include "core/shard/cuda/shard_thread.h"

namespace cpfeed {

void RunShardTaskOnHost(const ShardTask& task) {
  for (int32_t tile = 0; tile < task.num_tiles; ++tile) {
    for (int thread = 0; thread < kShardThreads; ++thread) {
      RunShardThread(task, tile, thread, kShardThreads);
    }
  }
}

}  // namespace cpfeed

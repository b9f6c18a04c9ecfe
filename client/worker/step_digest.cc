#include "client/worker/step_digest.h"

#include "core/base/digest.h"

namespace cpfeed {

uint64_t StepDigest(const StepShard& shard) {
  if (shard.chunks.size() == 1) return shard.chunks[0].plan->digest;
  DigestBuilder digest;
  for (const Shard& chunk : shard.chunks) {
    digest.UpdateInt64({static_cast<int64_t>(chunk.plan->digest)});
  }
  return digest.Finish();
}

}  // namespace cpfeed

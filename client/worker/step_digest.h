// What the ranks of a step compare before they exchange anything.

#ifndef CPFEED_CLIENT_WORKER_STEP_DIGEST_H_
#define CPFEED_CLIENT_WORKER_STEP_DIGEST_H_

#include <cstdint>

#include "core/shard/shard.h"

namespace cpfeed {

// The digest of the plan; of several chunks a digest of their plans' digests.
uint64_t StepDigest(const StepShard& shard);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_STEP_DIGEST_H_

// A received batch to the encoded shards of all ranks.

#ifndef CPFEED_SERVER_BATCH_CONVERTER_H_
#define CPFEED_SERVER_BATCH_CONVERTER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/plan/plan_cache.h"
#include "core/shard/prepare_batch.h"
#include "core/shard/shard_executor.h"
#include "core/tensor/buffer.h"
#include "core/wire/batch_codec.h"
#include "core/wire/sharding_codec.h"
#include "server/batch_facts.h"
#include "server/held_step.h"

namespace cpfeed {

// What all sessions of a server convert with.
struct ConversionBackend {
  const ShardExecutor& executor;
  PlanCache& plans;
};

struct Conversion {
  ConvertedBatch batch;
  int64_t cost_bytes = 0;  // What it holds from now on.
  BatchFacts facts;
};

// Converts, plans, verifies and cuts `wire_batch` for `cp_size` ranks.
// `payload` is what it refers to; both are released here, so that what the
// shards do not share is freed. `charge` is asked for all that the batch takes,
// `payload` included, before it is planned and, when that is known better,
// before it is cut.
//
// Errors:
//   INVALID_ARGUMENT  The batch is wrong.
//   INTERNAL          A plan failed its verification.
//   Others            Of `charge`.
absl::StatusOr<Conversion> ConvertBatch(WireBatch wire_batch, Buffer payload,
                                        const Sharding& sharding, int cp_size,
                                        const ConversionBackend& backend,
                                        const ChargeMemory& charge);

}  // namespace cpfeed

#endif  // CPFEED_SERVER_BATCH_CONVERTER_H_

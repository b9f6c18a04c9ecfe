// A training step of one rank: shard in, gradients out.

#ifndef CPFEED_CLIENT_WORKER_MODEL_SHARD_STEP_H_
#define CPFEED_CLIENT_WORKER_MODEL_SHARD_STEP_H_

#include <memory>

#include "absl/status/statusor.h"
#include "client/worker/model/decoder.h"
#include "core/attention/kv_exchange.h"
#include "core/comm/communicator.h"
#include "core/shard/shard.h"

namespace cpfeed {

// Makes a model's attention context-parallel over `group`: masks are dropped,
// attention goes over the ranks, linear attention is handed its positions.
void AttachCpHooks(HookableModule& model, std::shared_ptr<Communicator> group);

// The mean cross entropy over all labels of the step, the same on all ranks,
// whose gradients, summed over the ranks, are added to the model's; all ranks
// get the same bits. An error leaves the model's gradients as they were. They
// call it with equal models, whose hooks are attached, and their shards of one
// step; chunks follow each other.
//
// Errors:
//   FAILED_PRECONDITION  The ranks' plans differ (reason PLAN_MISMATCH).
//   INVALID_ARGUMENT     The shard has no input_ids, labels or position_ids, or
//                        ids that are none of the model's.
//   Others               Those of the model's attention and of the group.
absl::StatusOr<double> TrainOnShard(
    Decoder& model, const StepShard& shard,
    const std::shared_ptr<const KvExchange>& exchange,
    const std::shared_ptr<Communicator>& group);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_MODEL_SHARD_STEP_H_

// What all executors do alike: the shards of a step but for their bytes.

#ifndef CPFEED_CORE_SHARD_STEP_SHARDS_H_
#define CPFEED_CORE_SHARD_STEP_SHARDS_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "core/plan/shard_plan.h"
#include "core/shard/shard.h"
#include "core/tensor/tensor.h"
#include "core/thd/thd_batch.h"

namespace cpfeed {

// The shards of every rank, [cp_size], with plan, lengths and counts of rows,
// and without tensors.
//
// Errors:
//   INVALID_ARGUMENT  There is not one plan for each chunk, they are for
//                     different numbers of ranks, or for other lengths.
absl::StatusOr<std::vector<StepShard>> StepShardsWithoutTensors(
    const ThdBatch& batch,
    const std::vector<std::shared_ptr<const ShardPlan>>& plans);

// Adds the rank's rows of `tensor` to its shard; of labels also their count.
void AddTensor(const ThdTensor& tensor, Tensor rows, Shard& shard);

// Sets num_label_tokens_global when all tensors are there.
void CountLabelsOfStep(std::vector<StepShard>& shards);

}  // namespace cpfeed

#endif  // CPFEED_CORE_SHARD_STEP_SHARDS_H_

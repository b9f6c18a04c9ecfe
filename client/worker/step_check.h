// Compares what the ranks returned for a step with what one device gives for
// the documents that were fed.

#ifndef CPFEED_CLIENT_WORKER_STEP_CHECK_H_
#define CPFEED_CLIENT_WORKER_STEP_CHECK_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "client/worker/attention_shape.h"
#include "client/worker/expected_batches.h"
#include "core/plan/shard_plan.h"

namespace cpfeed {

// The outputs of one chunk: for each rank its rows, [num_tokens, num_heads,
// head_dim].
struct ChunkOutputs {
  std::shared_ptr<const ShardPlan> plan;
  std::vector<std::vector<float>> ranks;  // [cp_size]
};

// The largest absolute difference between an output and that of dense float64
// attention over its document. The reference shares no code with sharding or
// attention: the plan only says where a rank's rows belong.
//
// Errors:
//   DATA_LOSS  The chunks have other sequences than the documents, or a real
//              token came from no rank or from two; the message names it.
absl::StatusOr<double> MaxDifferenceToOneDevice(
    const std::vector<ExpectedSequence>& documents, const AttentionShape& shape,
    const std::vector<ChunkOutputs>& chunks);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_STEP_CHECK_H_

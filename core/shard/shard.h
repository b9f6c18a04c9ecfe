// What one context-parallel rank receives of one chunk of a step.

#ifndef CPFEED_CORE_SHARD_SHARD_H_
#define CPFEED_CORE_SHARD_SHARD_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "core/plan/shard_plan.h"
#include "core/tensor/tensor.h"
#include "core/thd/thd_batch.h"

namespace cpfeed {

// One rank's part of one chunk. A value; the bytes and the plan are shared.
struct Shard {
  int cp_rank = 0;
  std::shared_ptr<const ShardPlan> plan;  // Of the whole group.
  std::shared_ptr<const ThdChunk> chunk;  // Global lengths of the chunk.
  LocalCuSeqlens local;                   // This rank's prefix sums.
  int64_t num_tokens = 0;                 // Local rows.
  int64_t num_label_tokens = 0;           // Local labels that are not -100.
  // Token tensors of shape [outer..., num_tokens, inner...], in the order of
  // ThdBatch::tensors.
  std::vector<NamedTensor> tensors;
};

// One rank's part of a step: a shard for each chunk.
struct StepShard {
  std::vector<Shard> chunks;
  int64_t num_label_tokens_global = 0;  // Sum over all ranks and chunks.
};

// For each local row its position in the chunk's input, -1 where auto_pad or
// token_multiple inserted the row. Shape [num_tokens].
std::vector<int32_t> SourceIndex(const Shard& shard);

}  // namespace cpfeed

#endif  // CPFEED_CORE_SHARD_SHARD_H_

// One step of the attention job on one rank: shard in, outputs out.

#ifndef CPFEED_CLIENT_WORKER_ATTENTION_STEP_H_
#define CPFEED_CLIENT_WORKER_ATTENTION_STEP_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "client/worker/attention_shape.h"
#include "core/attention/kv_exchange.h"
#include "core/comm/communicator.h"
#include "core/shard/shard.h"

namespace cpfeed {

// Queries, keys and values of one chunk's local rows, float32 [num_tokens,
// heads, head_dim].
struct ChunkQkv {
  at::Tensor q;
  at::Tensor k;
  at::Tensor v;
};

// Derives them from the shard's input_ids and position_ids by TokenFeature;
// one for each chunk. Of positions with several components the first counts.
//
// Errors:
//   INVALID_ARGUMENT  A chunk has no input_ids or position_ids, or they are no
//                     integers.
absl::StatusOr<std::vector<ChunkQkv>> DeriveQkv(const StepShard& shard,
                                                const AttentionShape& shape);

struct StepOutputs {
  std::vector<at::Tensor> out;  // By chunk: [num_tokens, num_heads, head_dim]
  // From other ranks; what brings lse home is not counted.
  int64_t kv_bytes_received = 0;
};

// Context-parallel causal attention over each chunk, float32, where `qkv` is;
// the outputs are on the CPU. All ranks call it
// with their shards of one step.
//
// Errors: those of CheckDigestAgreement and ContextParallelAttention.
absl::StatusOr<StepOutputs> AttendStep(const StepShard& shard,
                                       const std::vector<ChunkQkv>& qkv,
                                       const AttentionShape& shape,
                                       const KvExchange& exchange,
                                       Communicator& group);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_ATTENTION_STEP_H_

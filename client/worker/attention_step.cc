#include "client/worker/attention_step.h"

#include <ATen/ops/empty.h>

#include <utility>

#include "client/worker/shard_integers.h"
#include "client/worker/step_digest.h"
#include "client/worker/token_feature.h"
#include "core/attention/cp_attention.h"
#include "core/base/status_macros.h"
#include "core/comm/agreement.h"

namespace cpfeed {
namespace {

at::Tensor DeriveOne(FeatureKind kind, const std::vector<int64_t>& tokens,
                     const std::vector<int64_t>& positions, int64_t rows,
                     int64_t heads, int64_t head_dim) {
  at::Tensor tensor = at::empty({rows, heads, head_dim}, at::kFloat);
  float* value = tensor.data_ptr<float>();
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t head = 0; head < heads; ++head) {
      for (int64_t c = 0; c < head_dim; ++c) {
        *value++ = static_cast<float>(
            TokenFeature(kind, tokens[row], positions[row], head, c));
      }
    }
  }
  return tensor;
}

}  // namespace

absl::StatusOr<std::vector<ChunkQkv>> DeriveQkv(const StepShard& shard,
                                                const AttentionShape& shape) {
  std::vector<ChunkQkv> all;
  for (const Shard& chunk : shard.chunks) {
    CF_ASSIGN_OR_RETURN(const auto tokens, ShardIntegers(chunk, "input_ids"));
    CF_ASSIGN_OR_RETURN(const auto positions,
                        ShardIntegers(chunk, "position_ids"));
    const auto derive = [&](FeatureKind kind, int64_t heads) {
      return DeriveOne(kind, tokens, positions, chunk.num_tokens, heads,
                       shape.head_dim);
    };
    all.push_back({.q = derive(FeatureKind::kQuery, shape.num_heads),
                   .k = derive(FeatureKind::kKey, shape.num_kv_heads),
                   .v = derive(FeatureKind::kValue, shape.num_kv_heads)});
  }
  return all;
}

absl::StatusOr<StepOutputs> AttendStep(const StepShard& shard,
                                       const std::vector<ChunkQkv>& qkv,
                                       const AttentionShape& shape,
                                       const KvExchange& exchange,
                                       Communicator& group) {
  CF_CHECK(qkv.size() == shard.chunks.size());
  CF_RETURN_IF_ERROR(CheckDigestAgreement(group, StepDigest(shard)));
  const int64_t received_before = group.bytes().received;
  StepOutputs outputs;
  for (size_t chunk = 0; chunk < qkv.size(); ++chunk) {
    CF_ASSIGN_OR_RETURN(
        AttentionOutput output,
        ContextParallelAttention(exchange,
                                 {.q = qkv[chunk].q,
                                  .k = qkv[chunk].k,
                                  .v = qkv[chunk].v,
                                  .mask = AttentionMask::Causal(),
                                  .scale = shape.scale()},
                                 *shard.chunks[chunk].plan, group));
    outputs.kv_bytes_received -= output.lse_bytes_received;
    outputs.out.push_back(output.out.cpu());
  }
  outputs.kv_bytes_received += group.bytes().received - received_before;
  return outputs;
}

}  // namespace cpfeed

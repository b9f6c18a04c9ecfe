#include "core/shard/step_shards.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/thd/label_count.h"

namespace cpfeed {
namespace {

absl::Status CheckPlan(const ThdChunk& chunk, const ShardPlan& plan,
                       size_t chunk_number) {
  if (plan.lengths.real == chunk.lengths.real &&
      plan.lengths.padded == chunk.lengths.padded &&
      plan.ranks.size() == static_cast<size_t>(plan.cp_size)) {
    return absl::OkStatus();
  }
  return InvalidArgument(
      kShapeMismatch,
      absl::StrCat("plan of chunk ", chunk_number, " is of other lengths"));
}

void AddChunk(const ThdChunk& chunk,
              const std::shared_ptr<const ShardPlan>& plan,
              std::vector<StepShard>& shards) {
  const auto shared_chunk = std::make_shared<const ThdChunk>(chunk);
  for (int rank = 0; rank < plan->cp_size; ++rank) {
    shards[rank].chunks.push_back({.cp_rank = rank,
                                   .plan = plan,
                                   .chunk = shared_chunk,
                                   .local = ComputeLocalCuSeqlens(*plan, rank),
                                   .num_tokens = plan->ranks[rank].num_tokens});
  }
}

}  // namespace

absl::StatusOr<std::vector<StepShard>> StepShardsWithoutTensors(
    const ThdBatch& batch,
    const std::vector<std::shared_ptr<const ShardPlan>>& plans) {
  if (plans.empty() || plans.size() != batch.chunks.size()) {
    return InvalidArgument(kShapeMismatch,
                           absl::StrCat(plans.size(), " plans for ",
                                        batch.chunks.size(), " chunks"));
  }
  const int cp_size = plans[0]->cp_size;
  std::vector<StepShard> shards(cp_size);
  for (StepShard& shard : shards) shard.chunks.reserve(plans.size());
  for (size_t i = 0; i < plans.size(); ++i) {
    CF_RETURN_IF_ERROR(CheckPlan(batch.chunks[i], *plans[i], i));
    if (plans[i]->cp_size != cp_size) {
      return InvalidArgument(
          kTopologyMismatch,
          absl::StrCat("plan of chunk ", i, " is for ", plans[i]->cp_size,
                       " ranks; must be ", cp_size));
    }
    AddChunk(batch.chunks[i], plans[i], shards);
  }
  return shards;
}

void AddTensor(const ThdTensor& tensor, Tensor rows, Shard& shard) {
  if (tensor.fill == PadFill::kIgnoreLabel) {
    shard.num_label_tokens = CountLabelTokens(rows);
  }
  shard.tensors.push_back(
      {.name = tensor.name,
       .tensor = std::move(rows),
       .token_axis = static_cast<int>(tensor.outer.size())});
}

void CountLabelsOfStep(std::vector<StepShard>& shards) {
  int64_t num_label_tokens = 0;
  for (const StepShard& shard : shards) {
    for (const Shard& chunk : shard.chunks) {
      num_label_tokens += chunk.num_label_tokens;
    }
  }
  for (StepShard& shard : shards) {
    shard.num_label_tokens_global = num_label_tokens;
  }
}

}  // namespace cpfeed

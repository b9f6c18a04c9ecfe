#include "client/cli/shard_json.h"

#include <cstddef>
#include <string>
#include <utility>

#include "client/cli/metrics_json.h"
#include "client/cli/tensor_json.h"
#include "core/plan/layout.h"
#include "core/plan/plan_metrics.h"
#include "core/plan/shard_plan.h"
#include "core/tensor/tensor.h"

namespace cpfeed {
namespace {

Json RankJson(const Shard& shard, const Json& plain) {
  Json rank;
  rank["rank"] = shard.cp_rank;
  rank["index"] = LocalIndex(*shard.plan, shard.cp_rank);
  rank["source_index"] = SourceIndex(shard);
  rank["cu_seqlens"] = shard.local.cu_seqlens;
  rank["cu_seqlens_padded"] = shard.local.cu_seqlens_padded;
  rank["segments"] = SegmentsJson(shard.plan->ranks[shard.cp_rank]);
  rank["num_label_tokens"] = shard.num_label_tokens;
  for (const NamedTensor& named : shard.tensors) {
    rank[named.name] = NestedJson(named.tensor);
  }
  for (const auto& [key, value] : plain.items()) rank[key] = value;
  return rank;
}

Json ChunkJson(const std::vector<StepShard>& ranks, size_t chunk_number,
               const Json& plain) {
  const ThdChunk& chunk = *ranks[0].chunks[chunk_number].chunk;
  const ShardPlan& plan = *ranks[0].chunks[chunk_number].plan;
  Json json;
  json["total_tokens"] = chunk.total_tokens;
  json["layout"] = std::string(LayoutName(plan.spec.layout));
  json["cu_seqlens"] = chunk.cu_seqlens;
  json["cu_seqlens_padded"] = chunk.cu_seqlens_padded;
  json["max_seqlen"] = chunk.max_seqlen;
  json["max_seqlen_padded"] = chunk.max_seqlen_padded;
  json["plan_digest"] = DigestText(plan.digest);
  json["metrics"] = MetricsJson(ComputePlanMetrics(plan));
  Json list = Json::array();
  for (const StepShard& rank : ranks) {
    list.push_back(RankJson(rank.chunks[chunk_number], plain));
  }
  json["ranks"] = std::move(list);
  return json;
}

}  // namespace

Json ShardsJson(const std::vector<StepShard>& ranks, const Json& plain) {
  Json chunks = Json::array();
  for (size_t i = 0; i < ranks[0].chunks.size(); ++i) {
    chunks.push_back(ChunkJson(ranks, i, plain));
  }
  Json json;
  json["status"] = "OK";
  json["num_label_tokens_global"] = ranks[0].num_label_tokens_global;
  json["chunks"] = std::move(chunks);
  return json;
}

}  // namespace cpfeed

#include "client/cli/shard_table.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "client/cli/metrics_json.h"
#include "client/cli/text_table.h"
#include "core/plan/layout.h"
#include "core/plan/plan_metrics.h"
#include "core/plan/rank_plan.h"
#include "core/plan/shard_plan.h"

namespace cpfeed {
namespace {

// More would not fit a line.
constexpr size_t kMaxSegments = 6;

// "0[0,2) 0[6,8) and 3 more": sequence and positions in its slot.
std::string SegmentsText(const RankPlan& plan) {
  std::string text;
  const size_t shown = std::min(plan.segments.size(), kMaxSegments);
  for (size_t i = 0; i < shown; ++i) {
    const Segment& segment = plan.segments[i];
    absl::StrAppend(&text, i == 0 ? "" : " ", segment.sequence, "[",
                    segment.begin, ",", segment.begin + segment.length, ")");
  }
  if (shown < plan.segments.size()) {
    absl::StrAppend(&text, " and ", plan.segments.size() - shown, " more");
  }
  return text;
}

std::string ChunkTable(const std::vector<StepShard>& ranks, size_t number) {
  const Shard& first = ranks[0].chunks[number];
  const PlanMetrics metrics = ComputePlanMetrics(*first.plan);
  TextTable table({"rank", "tokens", "padding", "labels", "area", "kv rows in",
                   "sequence[begin,end)"});
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const RankMetrics& of_rank = metrics.ranks[rank];
    table.AddRow({absl::StrCat(rank), absl::StrCat(of_rank.num_tokens),
                  absl::StrCat(of_rank.padding_rows),
                  absl::StrCat(ranks[rank].chunks[number].num_label_tokens),
                  absl::StrCat(of_rank.area),
                  absl::StrCat(of_rank.kv_rows_received),
                  SegmentsText(first.plan->ranks[rank])});
  }
  return absl::StrCat("chunk ", number, ": ", first.chunk->total_tokens,
                      " tokens in ", first.chunk->lengths.num_sequences(),
                      " sequences, ", LayoutName(first.plan->spec.layout),
                      ", plan ", DigestText(first.plan->digest), "\n",
                      table.ToString(), "\n");
}

}  // namespace

std::string ShardsTable(const std::vector<StepShard>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks[0].chunks.size(); ++i) {
    absl::StrAppend(&text, ChunkTable(ranks, i));
  }
  absl::StrAppend(&text, "labels in all: ", ranks[0].num_label_tokens_global,
                  "\n");
  return text;
}

}  // namespace cpfeed

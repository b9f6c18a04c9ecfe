#include "core/shard/shard.h"

#include <numeric>

#include "core/shard/source_runs.h"

namespace cpfeed {

std::vector<int32_t> SourceIndex(const Shard& shard) {
  const SourceRuns runs =
      ComputeSourceRuns(*shard.chunk, shard.plan->ranks[shard.cp_rank]);
  std::vector<int32_t> index(shard.num_tokens, -1);
  for (const CopyRun& run : runs.copies) {
    const auto first = index.begin() + run.row;
    std::iota(first, first + run.length,
              static_cast<int32_t>(run.source - shard.chunk->source_begin));
  }
  return index;
}

}  // namespace cpfeed

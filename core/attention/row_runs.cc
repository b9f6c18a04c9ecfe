#include "core/attention/row_runs.h"

#include <algorithm>
#include <numeric>

namespace cpfeed {

std::vector<RowRun> RankRuns(const ShardPlan& plan, int cp_rank) {
  std::vector<RowRun> runs;
  int64_t row = 0;
  for (const Segment& segment : plan.ranks[cp_rank].segments) {
    const int64_t real = plan.lengths.real[segment.sequence] - segment.begin;
    const int64_t length = std::min<int64_t>(segment.length, real);
    if (length > 0) {
      runs.push_back({segment.sequence, row, segment.begin, length});
    }
    row += segment.length;
  }
  return runs;
}

std::vector<RowRun> StreamRuns(const PackedLengths& lengths) {
  std::vector<RowRun> runs;
  int64_t row = 0;
  for (int64_t sequence = 0; sequence < lengths.num_sequences(); ++sequence) {
    const int64_t length = lengths.real[sequence];
    if (length > 0) {
      runs.push_back({static_cast<int32_t>(sequence), row, 0, length});
    }
    row += length;
  }
  return runs;
}

std::vector<int64_t> StreamOrder(const ShardPlan& plan) {
  std::vector<int64_t> begins(plan.lengths.num_sequences());
  std::exclusive_scan(plan.lengths.real.begin(), plan.lengths.real.end(),
                      begins.begin(), int64_t{0});
  std::vector<int64_t> order(std::reduce(plan.lengths.real.begin(),
                                         plan.lengths.real.end(), int64_t{0}));
  int64_t shard_begin = 0;
  for (int rank = 0; rank < plan.cp_size; ++rank) {
    for (const RowRun& run : RankRuns(plan, rank)) {
      const auto first = order.begin() + begins[run.sequence] + run.position;
      std::iota(first, first + run.length, shard_begin + run.row);
    }
    shard_begin += plan.ranks[rank].num_tokens;
  }
  return order;
}

}  // namespace cpfeed

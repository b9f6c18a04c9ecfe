// Where the real tokens of sequences lie in a buffer of rows.

#ifndef CPFEED_CORE_ATTENTION_ROW_RUNS_H_
#define CPFEED_CORE_ATTENTION_ROW_RUNS_H_

#include <cstdint>
#include <vector>

#include "core/batch/packed_lengths.h"
#include "core/plan/shard_plan.h"

namespace cpfeed {

// Rows [row, row + length) hold the tokens at positions [position, position +
// length) of a sequence.
struct RowRun {
  int32_t sequence = 0;
  int64_t row = 0;
  int64_t position = 0;
  int64_t length = 0;  // At least 1.

  friend bool operator==(const RowRun&, const RowRun&) = default;
};

// The runs of a rank's shard, without padding, by ascending row. The runs of
// one sequence lie behind each other without a gap and have ascending
// positions.
//
// Example: one sequence of real length 7 in a slot of 8, head-tail, rank 0 of 2
// holds positions 0, 1, 6, 7: runs (sequence 0, row 0, position 0, length 2)
// and (0, 2, 6, 1).
std::vector<RowRun> RankRuns(const ShardPlan& plan, int cp_rank);

// The runs of the real tokens of all sequences behind each other.
std::vector<RowRun> StreamRuns(const PackedLengths& lengths);

// Brings shards that lie behind each other in rank order into the order of
// StreamRuns: element i is the row of the concatenated shards that holds real
// token i of the stream. Shape [sum of real lengths].
std::vector<int64_t> StreamOrder(const ShardPlan& plan);

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_ROW_RUNS_H_

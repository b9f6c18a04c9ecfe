// Where the real tokens of sequences lie in a buffer of rows.

#ifndef CPFEED_CORE_ATTENTION_ROW_RUNS_H_
#define CPFEED_CORE_ATTENTION_ROW_RUNS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
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

// A buffer of rows and which tokens are in it.
struct RowBuffer {
  int64_t num_rows = 0;
  std::vector<RowRun> runs;  // By ascending row; other rows are padding.
};

// The tokens of several buffers, sequence after sequence and each by ascending
// position.
struct StreamOrder {
  // Of the ordered rows; no two can be joined.
  std::vector<RowRun> runs;
  // For each ordered row its row in the buffers, laid behind each other.
  std::vector<int64_t> source;
};

// Example: one sequence of 8, head-tail over 2 ranks, the buffers are shards.
// Rank 0 holds positions 0 1 6 7, rank 1 holds 2 3 4 5:
//   runs (0, 0, 0, 8), source 0 1 4 5 6 7 2 3
StreamOrder OrderRows(absl::Span<const RowBuffer> buffers);

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_ROW_RUNS_H_

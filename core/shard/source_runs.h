// Where one rank's rows come from: runs of the batch's input, and padding.

#ifndef CPFEED_CORE_SHARD_SOURCE_RUNS_H_
#define CPFEED_CORE_SHARD_SOURCE_RUNS_H_

#include <cstdint>
#include <vector>

#include "core/plan/shard_plan.h"
#include "core/thd/thd_batch.h"

namespace cpfeed {

// Local rows [row, row + length) are the tokens [source, source + length) of
// the batch's B * S input stream, which has fewer than 2^31.
struct CopyRun {
  int32_t row = 0;
  int32_t source = 0;
  int32_t length = 0;
};

// Local rows [row, row + length) were inserted. They are the positions
// [begin, begin + length) of the slot of `sequence`, or rows of no position
// where `sequence` is -1.
struct PadRun {
  int64_t row = 0;
  int64_t length = 0;
  int64_t begin = 0;
  int32_t sequence = -1;
};

// Both in ascending row order; together they cover every local row once. Runs
// that continue each other, in rows and in source, are one.
struct SourceRuns {
  std::vector<CopyRun> copies;
  std::vector<PadRun> pads;
};

// Turns segments of the padded stream into runs of the input. `plan` is of
// `chunk`. Linear in the number of segments.
SourceRuns ComputeSourceRuns(const ThdChunk& chunk, const RankPlan& plan);

// For each sequence the position of its first token in the batch's input
// stream, [num_sequences].
std::vector<int64_t> SourceBegins(const ThdChunk& chunk);

}  // namespace cpfeed

#endif  // CPFEED_CORE_SHARD_SOURCE_RUNS_H_

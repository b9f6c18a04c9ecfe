// All ranks' copies of one chunk, in the order of the input.

#ifndef CPFEED_CORE_SHARD_SOURCE_ORDER_H_
#define CPFEED_CORE_SHARD_SOURCE_ORDER_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/shard/source_runs.h"

namespace cpfeed {

// Tokens [source, source + length) of the batch's input stream (which has fewer
// than 2^31) are the local rows [row, row + length) of `rank`.
struct RankCopy {
  int32_t source = 0;
  int32_t row = 0;
  int32_t length = 0;
  int32_t rank = 0;

  friend bool operator==(const RankCopy&, const RankCopy&) = default;
};

// Merges `ranks[rank].copies`, each of which ascends in `source`; none overlaps
// another. Who walks the result reads the input once from front to back,
// however short the runs are: with 64 ranks a run is mostly shorter than a
// cache line, and rank by rank each line would come from memory several times.
//
// Nearly linear in the number of copies for layouts that deal to neighbouring
// ranks in turn; at worst a copy costs a look at every rank.
//
// Example: copies (source, row, length) of rank 0: (0, 0, 2) (6, 2, 2), of rank
// 1: (2, 0, 4) give (0, 0, 2, rank 0) (2, 0, 4, rank 1) (6, 2, 2, rank 0).
std::vector<RankCopy> MergeBySource(absl::Span<const SourceRuns> ranks);

}  // namespace cpfeed

#endif  // CPFEED_CORE_SHARD_SOURCE_ORDER_H_

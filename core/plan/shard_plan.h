// Decides which tokens of a packed (THD) stream each context-parallel rank
// holds.
//
// Host-side integer arithmetic only: no tensors, no CUDA, no protos, no RPC.
// The same lengths and spec give the same plan on every machine.

#ifndef CPFEED_CORE_PLAN_SHARD_PLAN_H_
#define CPFEED_CORE_PLAN_SHARD_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/batch/packed_lengths.h"
#include "core/plan/layout.h"

namespace cpfeed {

// Consecutive positions of one slot: [begin, begin + length) counted from the
// slot's start.
struct Segment {
  int32_t sequence = 0;
  int32_t begin = 0;
  int32_t length = 0;  // At least 1.

  friend bool operator==(const Segment&, const Segment&) = default;
};

// What one rank holds, in its local order: ascending position in the stream.
// Segments are maximal: two that touch are one.
struct RankPlan {
  std::vector<Segment> segments;
  int64_t num_tokens = 0;  // Rows on this rank, pad_rows included.
  int64_t pad_rows = 0;    // Rows at the end that no position fills.
};

// Who holds what. The union over ranks holds every position that the layout
// keeps exactly once: all of them, but for BALANCED without keep_padding, which
// keeps only real tokens.
struct ShardPlan {
  LayoutSpec spec;  // Resolved: never kUnspecified.
  int cp_size = 1;
  PackedLengths lengths;
  std::vector<RankPlan> ranks;  // [cp_size]
  uint64_t digest = 0;          // See PlanDigest.
};

// Plans one chunk.
//
// Errors:
//   INVALID_ARGUMENT  cp_size < 1, lengths that break PackedLengths' rules or
//                     sum to 2^31 or more, or a layout whose rule of
//                     divisibility they break (reason NOT_DIVISIBLE; the
//                     message names row, sequence, value and multiple).
absl::StatusOr<ShardPlan> PlanShards(const PackedLengths& lengths,
                                     const LayoutSpec& spec, int cp_size);

// XXH3-64 of these numbers as little-endian int64: format (1), layout, its
// parameters, cp_size, num_sequences, real lengths, slot lengths, then for each
// rank the number of segments and their (sequence, begin, length). Ranks
// compare it before the first collective of a step.
uint64_t PlanDigest(const ShardPlan& plan);

// For each local row its position in the chunk's padded stream, ascending; -1
// for pad rows. Shape [num_tokens].
std::vector<int32_t> LocalIndex(const ShardPlan& plan, int cp_rank);

// Local prefix sums over one rank's rows, [num_sequences + 1] each: of all rows
// of each slot, and of the real ones (which are a prefix of them).
struct LocalCuSeqlens {
  std::vector<int32_t> cu_seqlens;
  std::vector<int32_t> cu_seqlens_padded;
};
LocalCuSeqlens ComputeLocalCuSeqlens(const ShardPlan& plan, int cp_rank);

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_SHARD_PLAN_H_

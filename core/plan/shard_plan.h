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
#include "core/plan/layout_spec.h"
#include "core/plan/rank_plan.h"

namespace cpfeed {

// Who holds what. The union over ranks holds every position that the layout
// keeps exactly once: all of them, but for BALANCED without keep_padding, which
// keeps only real tokens.
struct ShardPlan {
  LayoutSpec spec;  // Resolved: neither kUnspecified nor kAuto.
  int cp_size = 1;
  PackedLengths lengths;
  std::vector<RankPlan> ranks;  // [cp_size]
  uint64_t digest = 0;          // See PlanDigest.
};

// Plans one chunk, whose lengths are known: kUnspecified is
// HEAD_TAIL_PER_SEQUENCE here.
//
// Example: lengths {real {8, 3}, padded {8, 4}}, HEAD_TAIL_PER_SEQUENCE,
// cp_size 2. Segments are (sequence, begin, length):
//   rank 0  (0, 0, 2) (0, 6, 2) (1, 0, 1) (1, 3, 1)
//   rank 1  (0, 2, 4) (1, 1, 2)
//
// Errors:
//   INVALID_ARGUMENT  cp_size or a parameter of the layout out of range,
//                     lengths that break PackedLengths' rules or sum to 2^31 or
//                     more, or a layout whose rule of divisibility they break
//                     (reason NOT_DIVISIBLE; the message names row, sequence,
//                     value and multiple), or a token_multiple that makes 2^31
//                     rows or more (BATCH_TOO_LARGE).
//   RESOURCE_EXHAUSTED  BATCH_TOO_LARGE: the plan might have more than 2^27
//                     segments; nothing is planned.
absl::StatusOr<ShardPlan> PlanShards(const PackedLengths& lengths,
                                     const LayoutSpec& spec, int cp_size);

// No plan of such lengths has more segments over all ranks, so that a caller
// can charge the memory (sizeof(Segment) each) before it plans. `spec` and
// `cp_size` pass CheckLayoutSpec, `lengths` keep PackedLengths' rules.
int64_t MaxSegments(const PackedLengths& lengths, const LayoutSpec& spec,
                    int cp_size);

// XXH3-64 of these numbers as little-endian int64: format (1), layout, its
// parameters, cp_size, num_sequences, real lengths, slot lengths, then for each
// rank the number of segments and their (sequence, begin, length). Parameters
// are those that LayoutSpec lists beside the layout, in that order. Ranks
// compare it before the first collective of a step. Objective, mask and linear
// cost are not in it: what they led to is in the segments.
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

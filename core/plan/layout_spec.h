// A layout with its parameters.

#ifndef CPFEED_CORE_PLAN_LAYOUT_SPEC_H_
#define CPFEED_CORE_PLAN_LAYOUT_SPEC_H_

#include <cstdint>

#include "core/plan/visible_keys.h"

namespace cpfeed {

// The ways to share a packed stream out over a context-parallel group. The
// numbers are those of cpfeed.v1.Layout; docs/algorithms.md draws each.
enum class Layout : int8_t {
  kUnspecified = 0,  // HEAD_TAIL_PER_SEQUENCE, or PER_ROW without lengths.
  kContiguous = 1,
  kHeadTailPerRow = 2,
  kHeadTailPerSequence = 3,
  kStriped = 4,
  kChunkGreedy = 5,
  kPtrr = 6,
  kBalanced = 7,
  kAuto = 8,  // BALANCED for packed causal batches, else as kUnspecified.
};

// What BALANCED makes equal over the ranks besides their tokens. The numbers
// are those of cpfeed.v1.Objective.
enum class Objective : int8_t {
  kUnspecified = 0,  // TILE from kTileObjectiveFrom ranks on, else AREA.
  kArea = 1,         // Visible query-key pairs.
  kTile = 2,         // Tiles that an attention kernel touches.
};
inline constexpr int kTileObjectiveFrom = 128;

// Each parameter belongs to the layouts named beside it and is ignored by the
// others.
struct LayoutSpec {
  Layout layout = Layout::kUnspecified;
  bool uneven = false;         // CONTIGUOUS: T need not divide by cp_size.
  int64_t stripe_width = 1;    // STRIPED: tokens of a stripe.
  int64_t chunk_size = 128;    // CHUNK_GREEDY: tokens of a chunk.
  bool keep_padding = false;   // BALANCED: slot padding stays, without weight.
  int64_t token_multiple = 1;  // BALANCED: every rank's rows, rounded up.
  // BALANCED, and figures of any plan. They steer the planner; what it did is
  // in the segments, so they are not in the plan digest.
  Objective objective = Objective::kUnspecified;
  VisibleKeys mask;         // The mask that costs are counted under.
  int64_t linear_cost = 0;  // Cost of a token beside attention, in pairs.
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_LAYOUT_SPEC_H_

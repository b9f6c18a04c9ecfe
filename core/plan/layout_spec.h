// A layout with its parameters.

#ifndef CPFEED_CORE_PLAN_LAYOUT_SPEC_H_
#define CPFEED_CORE_PLAN_LAYOUT_SPEC_H_

#include <cstdint>

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
};

// Each parameter belongs to the layouts named beside it and is ignored by the
// others.
struct LayoutSpec {
  Layout layout = Layout::kUnspecified;
  bool uneven = false;         // CONTIGUOUS: T need not divide by cp_size.
  int64_t stripe_width = 1;    // STRIPED: tokens of a stripe.
  int64_t chunk_size = 128;    // CHUNK_GREEDY: tokens of a chunk.
  bool keep_padding = false;   // BALANCED: slot padding stays, without weight.
  int64_t token_multiple = 1;  // BALANCED: every rank's rows, rounded up.
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_LAYOUT_SPEC_H_

// The ways to share a packed sequence out over a context-parallel group.

#ifndef CPFEED_CORE_PLAN_LAYOUT_H_
#define CPFEED_CORE_PLAN_LAYOUT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/batch/packed_batch.h"

namespace cpfeed {

// The numbers are those of cpfeed.v1.Layout; docs/algorithms.md draws each.
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

// A layout with its parameters. Each parameter belongs to the layouts named
// beside it and is ignored by the others.
struct LayoutSpec {
  Layout layout = Layout::kUnspecified;
  bool uneven = false;         // CONTIGUOUS: T need not divide by cp_size.
  int64_t stripe_width = 1;    // STRIPED: tokens of a stripe.
  int64_t chunk_size = 128;    // CHUNK_GREEDY: tokens of a chunk.
  bool keep_padding = false;   // BALANCED: slot padding stays, without weight.
  int64_t token_multiple = 1;  // BALANCED: every rank's rows, rounded up.
};

// The name as in documents and flags: "HEAD_TAIL_PER_SEQUENCE".
absl::string_view LayoutName(Layout layout);

// The reverse, in either case ("head_tail_per_sequence" too).
//
// Errors:
//   INVALID_ARGUMENT  `name` is no layout; the message lists them.
absl::StatusOr<Layout> ParseLayout(absl::string_view name);

// `spec` with kUnspecified replaced by the default layout.
LayoutSpec ResolveLayout(LayoutSpec spec, bool has_lengths);

// What auto_pad has to make divisible for this (resolved) layout. At cp_size 1
// every layout is the identity and nothing needs padding.
PadRule PadRuleOf(const LayoutSpec& spec, int64_t cp_size);

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_LAYOUT_H_

// What one context-parallel rank holds of a packed stream.

#ifndef CPFEED_CORE_PLAN_RANK_PLAN_H_
#define CPFEED_CORE_PLAN_RANK_PLAN_H_

#include <cstdint>
#include <vector>

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

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_RANK_PLAN_H_

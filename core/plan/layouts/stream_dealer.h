// Hands a packed stream out to ranks, piece by piece.

#ifndef CPFEED_CORE_PLAN_LAYOUTS_STREAM_DEALER_H_
#define CPFEED_CORE_PLAN_LAYOUTS_STREAM_DEALER_H_

#include <cstdint>
#include <vector>

#include "core/batch/packed_lengths.h"
#include "core/plan/rank_plan.h"

namespace cpfeed {

// Goes over the stream once, from its first position to its last, and cuts what
// each rank is given into maximal segments. Time is linear in the number of
// sequences, pieces and segments.
class StreamDealer {
 public:
  // Both outlive the dealer. Segments are appended to `ranks`.
  StreamDealer(const PackedLengths& lengths, std::vector<RankPlan>& ranks)
      : lengths_(lengths), ranks_(ranks) {}

  // The next `length` positions of the stream go to `rank`. There must be so
  // many left.
  void Give(int rank, int64_t length);

 private:
  const PackedLengths& lengths_;
  std::vector<RankPlan>& ranks_;
  int64_t sequence_ = 0;
  int64_t begin_ = 0;  // First position of the slot that is still to be given.
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_LAYOUTS_STREAM_DEALER_H_

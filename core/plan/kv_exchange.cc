#include "core/plan/kv_exchange.h"

#include <algorithm>
#include <numeric>

#include "core/plan/rank_plan.h"

namespace cpfeed {
namespace {

// End of the segment's real rows; at most its begin where it has none.
int64_t RealEnd(const ShardPlan& plan, const Segment& segment) {
  return std::min<int64_t>(segment.begin + int64_t{segment.length},
                           plan.lengths.real[segment.sequence]);
}

// Calls visit(rank, sequence, end, count) for every rank and sequence of which
// the rank holds `count` > 0 real rows, the last at position end - 1.
template <class Visit>
void ForEachHolding(const ShardPlan& plan, Visit visit) {
  for (int rank = 0; rank < plan.cp_size; ++rank) {
    const std::vector<Segment>& segments = plan.ranks[rank].segments;
    for (size_t i = 0; i < segments.size();) {
      const int32_t sequence = segments[i].sequence;
      int64_t end = 0;
      int64_t count = 0;
      for (; i < segments.size() && segments[i].sequence == sequence; ++i) {
        const int64_t real_end = RealEnd(plan, segments[i]);
        if (real_end <= segments[i].begin) continue;
        end = real_end;
        count += real_end - segments[i].begin;
      }
      if (count > 0) visit(rank, sequence, end, count);
    }
  }
}

// How far each holder of a sequence sees into it. `ends` of all sequences lie
// behind each other, ascending within each.
class SeenEnds {
 public:
  explicit SeenEnds(const ShardPlan& plan)
      : begin_(plan.lengths.num_sequences() + 1, 0) {
    ForEachHolding(plan, [&](int, int32_t sequence, int64_t, int64_t) {
      ++begin_[sequence + 1];
    });
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    ends_.resize(begin_.back());
    std::vector<int64_t> next = begin_;
    ForEachHolding(plan, [&](int, int32_t sequence, int64_t end, int64_t) {
      ends_[next[sequence]++] = end;
    });
    sums_.resize(ends_.size() + 1, 0);
    for (size_t s = 0; s + 1 < begin_.size(); ++s) {
      std::sort(ends_.begin() + begin_[s], ends_.begin() + begin_[s + 1]);
    }
    std::partial_sum(ends_.begin(), ends_.end(), sums_.begin() + 1);
  }

  // The sum over holders of min(end, position): how many pairs of a holder and
  // a row below `position` that it sees there are.
  int64_t PairsBelow(int32_t sequence, int64_t position) const {
    const int64_t first = begin_[sequence];
    const int64_t last = begin_[sequence + 1];
    const int64_t split = std::upper_bound(ends_.begin() + first,
                                           ends_.begin() + last, position) -
                          ends_.begin();
    return sums_[split] - sums_[first] + (last - split) * position;
  }

 private:
  std::vector<int64_t> begin_;  // [num_sequences + 1], into ends_.
  std::vector<int64_t> ends_;
  std::vector<int64_t> sums_;  // Prefix sums of ends_.
};

}  // namespace

std::vector<int64_t> CountKvRowsReceived(const ShardPlan& plan) {
  std::vector<int64_t> received(plan.cp_size, 0);
  ForEachHolding(plan, [&](int rank, int32_t, int64_t end, int64_t count) {
    received[rank] += end - count;
  });
  return received;
}

std::vector<int64_t> CountKvRowsSent(const ShardPlan& plan) {
  std::vector<int64_t> sent(plan.cp_size, 0);
  const SeenEnds seen(plan);
  for (int rank = 0; rank < plan.cp_size; ++rank) {
    for (const Segment& segment : plan.ranks[rank].segments) {
      const int64_t end = RealEnd(plan, segment);
      if (end <= segment.begin) continue;
      // Its owner sees all of a segment, but is sent none of it.
      sent[rank] += seen.PairsBelow(segment.sequence, end) -
                    seen.PairsBelow(segment.sequence, segment.begin) -
                    (end - segment.begin);
    }
  }
  return sent;
}

}  // namespace cpfeed

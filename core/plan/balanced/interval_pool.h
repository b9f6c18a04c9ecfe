// The rows that no rank has yet.

#ifndef CPFEED_CORE_PLAN_BALANCED_INTERVAL_POOL_H_
#define CPFEED_CORE_PLAN_BALANCED_INTERVAL_POOL_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/plan/balanced/row_cost.h"

namespace cpfeed {

// Rows [begin, end) of a sequence.
struct Slice {
  int32_t sequence = 0;
  int32_t begin = 0;
  int32_t end = 0;

  friend bool operator==(const Slice&, const Slice&) = default;
};

// A rank while it is filled.
struct RankPart {
  std::vector<Slice> slices;
  int64_t rows = 0;  // That it still has to take.
  int64_t cost = 0;  // That it should still take; may fall below 0.
};

// Open rows, as intervals of sequences in order from light to heavy. At first
// each sequence is one interval. If a rank takes the top of [0, end), what
// remains is just a shorter sequence: nothing of the taken part is ever needed
// to attend to it.
class IntervalPool {
 public:
  struct Interval {
    Slice slice;
    int64_t order = 0;  // RowCost::Order.
    int64_t cost = 0;   // Of all its rows.

    int64_t length() const { return slice.end - slice.begin; }
  };

  // Both outlive the pool.
  IntervalPool(absl::Span<const int64_t> real, const RowCost& cost);

  int64_t open_rows() const { return open_rows_; }
  int64_t open_cost() const { return open_cost_; }

  // Intervals are numbered; places order the open ones, from the lightest at
  // first() to the heaviest at last() - 1. A change moves places.
  int64_t first() const { return first_; }
  int64_t last() const { return static_cast<int64_t>(order_.size()); }
  bool empty() const { return first() == last(); }
  int32_t At(int64_t place) const { return order_[place]; }
  const Interval& interval(int32_t number) const { return intervals_[number]; }
  const Interval& operator[](int64_t place) const {
    return intervals_[order_[place]];
  }
  int64_t PlaceOf(int32_t number) const;
  // The first place whose order is at least `order`.
  int64_t FirstNotBelow(int64_t order) const;

  // Rows and cost of the intervals at places [first(), place) plus a number
  // that depends on nothing but the last change: for differences. Constant time
  // but for what changed since, which is looked at once.
  struct Sum {
    int64_t rows = 0;
    int64_t cost = 0;
  };
  const Sum& SumBefore(int64_t place) {
    while (summed_ < place) SumNext();
    return sums_[place];
  }
  // The last place in [place, end] before which there are at most `rows` rows
  // from `place` on.
  int64_t PlaceAfterRows(int64_t place, int64_t end, int64_t rows);

  const RowCost& row_cost() const { return cost_; }

  // The rank takes the rows [begin, end) of an interval, which has them.
  void Take(int32_t number, int64_t begin, int64_t end, RankPart& rank);
  void TakeAll(int32_t number, RankPart& rank);
  // All intervals at places [begin, end), for the price of one that is not the
  // first.
  void TakePlaces(int64_t begin, int64_t end, RankPart& rank);

  // Takes the lightest interval away, to be dealt by the caller.
  Interval PopFirst();

  // What was taken since Mark() comes back. Parts of ranks stay as they are.
  // Nothing may have been taken out of the middle of an interval since.
  void Mark() { log_.clear(); }
  void Restore();

 private:
  struct Change {
    int32_t number;
    Interval before;
  };

  bool Lighter(int32_t a, int32_t b) const;
  void Erase(int64_t place);
  void Insert(int32_t number);
  void SetSlice(int32_t number, int64_t begin, int64_t end);
  void RestoreOneByOne();
  void RestoreAtOnce();
  void ResetSums();
  void SumNext();

  const RowCost& cost_;
  int64_t open_rows_ = 0;
  int64_t open_cost_ = 0;
  std::vector<Interval> intervals_;
  std::vector<int32_t> order_;  // Of [first_, size()).
  int64_t first_ = 0;
  std::vector<Sum> sums_;  // Right at places [first_, summed_].
  int64_t summed_ = 0;
  std::vector<Change> log_;
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_BALANCED_INTERVAL_POOL_H_

#include "core/plan/balanced/window_rank.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "core/plan/balanced/mul_div.h"
#include "core/plan/balanced/row_cost.h"

namespace cpfeed {
namespace {

// A window on the circle. Slides forwards.
class Window {
 public:
  // The last `rows` rows of the order; there are more.
  Window(const IntervalPool& pool, int64_t rows) : pool_(&pool) {
    last_.place = first_.place = pool.last() - 1;
    last_.row = pool[last_.place].slice.end;
    while (rows > pool[first_.place].length()) {
      rows -= pool[first_.place].length();
      if (first_.place != last_.place) inside_ += pool[first_.place].cost;
      --first_.place;
      ++boundaries_;
    }
    first_.row = pool[first_.place].slice.end - rows;
  }

  // Goes on to the next interval at an end that has used up its own. Then
  // Reach() rows are left on the way.
  void Normalize() {
    if (last_.row == IntervalAt(last_).slice.end) {
      if (boundaries_ > 0) inside_ += IntervalAt(last_).cost;
      ++boundaries_;
      Advance(last_);
    }
    if (first_.row == IntervalAt(first_).slice.end) {
      Advance(first_);
      --boundaries_;
      if (boundaries_ > 0) inside_ -= IntervalAt(first_).cost;
    }
  }
  int64_t Reach() const {
    return std::min(IntervalAt(first_).slice.end - first_.row,
                    IntervalAt(last_).slice.end - last_.row);
  }

  // What it would cost moved by so many rows, up to Reach().
  int64_t Cost(int64_t shift) const {
    const int64_t first_row = first_.row + shift;
    const int64_t last_row = last_.row + shift;
    if (boundaries_ == 0) return CostOf(first_, first_row, last_row);
    return CostOf(first_, first_row, IntervalAt(first_).slice.end) + inside_ +
           CostOf(last_, IntervalAt(last_).slice.begin, last_row);
  }

  void Move(int64_t shift) {
    first_.row += shift;
    last_.row += shift;
  }

  // Takes its rows.
  void TakeFrom(IntervalPool& pool, RankPart& rank) const {
    if (boundaries_ == 0) {
      pool.Take(pool.At(first_.place), first_.row, last_.row, rank);
      return;
    }
    const int32_t first = pool.At(first_.place);
    const int32_t last = pool.At(last_.place);
    const int64_t last_begin = IntervalAt(last_).slice.begin;
    if (boundaries_ > 1) {
      const bool wraps = last_.place <= first_.place;
      const int64_t end = wraps ? pool.last() : last_.place;
      pool.TakePlaces(first_.place + 1, end, rank);
      if (wraps) pool.TakePlaces(pool.first(), last_.place, rank);
    }
    pool.Take(first, first_.row, pool.interval(first).slice.end, rank);
    pool.Take(last, last_begin, last_.row, rank);
  }

 private:
  struct Edge {
    int64_t place = 0;
    int64_t row = 0;
  };

  const IntervalPool::Interval& IntervalAt(const Edge& edge) const {
    return (*pool_)[edge.place];
  }
  int64_t CostOf(const Edge& edge, int64_t begin, int64_t end) const {
    return pool_->row_cost().Of(IntervalAt(edge).slice.sequence, begin, end);
  }
  void Advance(Edge& edge) const {
    if (++edge.place == pool_->last()) edge.place = pool_->first();
    edge.row = IntervalAt(edge).slice.begin;
  }

  const IntervalPool* pool_;
  Edge first_;              // Its first row.
  Edge last_;               // One behind its last row.
  int64_t boundaries_ = 0;  // Of intervals, between first_ and last_.
  int64_t inside_ = 0;      // Cost of the whole intervals between them.
};

// Whether a window on the way from one to the other costs about the mean.
bool Cross(int64_t before, int64_t after, int64_t mean) {
  return before == mean || after == mean || (before < mean) != (after < mean);
}

// The best shift for `aim` in [0, reach], whose ends cross the mean: one of two
// neighbours that cross it too.
int64_t BestShift(const Window& window, int64_t reach, int64_t mean,
                  int64_t aim) {
  if (window.Cost(0) == mean) return 0;
  if (window.Cost(reach) == mean) return reach;
  const bool rising = window.Cost(0) < mean;
  int64_t low = 0;
  int64_t high = reach;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    ((window.Cost(middle) <= mean) == rising ? low : high) = middle;
  }
  const bool take_low =
      std::abs(window.Cost(low) - aim) <= std::abs(window.Cost(high) - aim);
  return take_low ? low : high;
}

// The window whose cost comes nearest to rank.cost. The pool has more rows.
Window FindWindow(const IntervalPool& pool, const RankPart& rank) {
  const int64_t mean = MulDiv(pool.open_cost(), rank.rows, pool.open_rows());
  Window window(pool, rank.rows);
  Window best = window;
  for (int64_t moved = 0; moved < pool.open_rows();) {
    window.Normalize();
    const int64_t reach = window.Reach();
    if (Cross(window.Cost(0), window.Cost(reach), mean)) {
      window.Move(BestShift(window, reach, mean, rank.cost));
      return window;
    }
    window.Move(reach);
    moved += reach;
    // Reached only where costs are not additive.
    if (std::abs(window.Cost(0) - rank.cost) <
        std::abs(best.Cost(0) - rank.cost)) {
      best = window;
    }
  }
  return best;
}

}  // namespace

int64_t CostByWindow(const IntervalPool& pool, const RankPart& rank) {
  if (rank.rows == pool.open_rows()) return pool.open_cost();
  return rank.rows == 0 ? 0 : FindWindow(pool, rank).Cost(0);
}

void FillByWindow(IntervalPool& pool, RankPart& rank) {
  if (rank.rows == 0) return;
  if (rank.rows == pool.open_rows()) {
    while (!pool.empty()) pool.TakeAll(pool.At(pool.last() - 1), rank);
    return;
  }
  FindWindow(pool, rank).TakeFrom(pool, rank);
}

}  // namespace cpfeed

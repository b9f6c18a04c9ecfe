#include "core/plan/balanced/light_fill.h"

#include <algorithm>
#include <limits>

namespace cpfeed {
namespace {

int64_t HeadCost(const IntervalPool& pool, int32_t number, int64_t rows) {
  const Slice& slice = pool.interval(number).slice;
  return pool.row_cost().Of(slice.sequence, slice.begin, slice.begin + rows);
}

int64_t PlaceOrNowhere(const IntervalPool& pool, int32_t number) {
  if (number == FillTerms::kNone || pool.interval(number).length() == 0) {
    return FillTerms::kNowhere;
  }
  return pool.PlaceOf(number);
}

class Filling {
 public:
  Filling(IntervalPool& pool, const FillTerms& terms, int64_t rows)
      : pool_(pool), terms_(terms), left_(rows) {}

  LightFill Find() {
    const int64_t own = terms_.own_at;
    const int64_t excluded = terms_.excluded_at;
    int64_t own_head = terms_.own_rows > 0
                           ? terms_.own_place
                           : std::numeric_limits<int64_t>::max();
    fill_.stop = pool_.first();
    while (left_ > 0 && fill_.stop < pool_.last()) {
      if (fill_.stop >= own_head) {
        TakeOwn(std::min(left_, terms_.own_rows));
        own_head = std::numeric_limits<int64_t>::max();
      } else if (fill_.stop == own || fill_.stop == excluded) {
        ++fill_.stop;
      } else {
        int64_t end = std::min(pool_.last(), own_head);
        if (own > fill_.stop) end = std::min(end, own);
        if (excluded > fill_.stop) end = std::min(end, excluded);
        TakeIntervals(end);
      }
    }
    if (left_ > 0 && fill_.part_rows == 0 && terms_.own_rows > 0) {
      TakeOwn(std::min(left_, terms_.own_rows));
    }
    return fill_;
  }

 private:
  void TakeOwn(int64_t rows) {
    fill_.part = terms_.own;
    fill_.part_rows = rows;
    fill_.cost += HeadCost(pool_, terms_.own, rows);
    left_ -= rows;
  }

  // Whole ones up to `end`, and a part where they are too many.
  void TakeIntervals(int64_t end) {
    const int64_t stop = pool_.PlaceAfterRows(fill_.stop, end, left_);
    const IntervalPool::Sum before = pool_.SumBefore(fill_.stop);
    const IntervalPool::Sum& behind = pool_.SumBefore(stop);
    left_ -= behind.rows - before.rows;
    fill_.cost += behind.cost - before.cost;
    fill_.stop = stop;
    if (stop == end || left_ == 0) return;
    int32_t number = pool_.At(stop);
    const bool from_own = terms_.last_from_own && stop < terms_.own_place &&
                          terms_.own_rows >= left_;
    if (from_own) number = terms_.own;
    // Behind own's head the rank has its one part already.
    if (fill_.part_rows == 0) {
      fill_.part = number;
      fill_.part_rows = left_;
    }
    fill_.cost += HeadCost(pool_, number, left_);
    left_ = 0;
  }

  IntervalPool& pool_;
  const FillTerms& terms_;
  int64_t left_;
  LightFill fill_;
};

// Whether the fill leaves the interval out: it has so many rows to go.
bool Stays(const IntervalPool& pool, const FillTerms& terms, int64_t place,
           int64_t rows) {
  const int32_t number = pool.At(place);
  return number == terms.own || number == terms.excluded ||
         pool.interval(number).length() > rows;
}

}  // namespace

void FindPlaces(const IntervalPool& pool, FillTerms& terms) {
  terms.own_at = PlaceOrNowhere(pool, terms.own);
  terms.excluded_at = PlaceOrNowhere(pool, terms.excluded);
}

LightFill FindLightFill(IntervalPool& pool, const FillTerms& terms,
                        int64_t rows) {
  return Filling(pool, terms, rows).Find();
}

void TakeLightFill(IntervalPool& pool, const FillTerms& terms,
                   const LightFill& fill, RankPart& rank) {
  int64_t place = pool.first();
  for (int64_t count = fill.stop - pool.first(); count > 0;) {
    int64_t rows = rank.rows;
    int64_t end = place;
    while (end < place + count && !Stays(pool, terms, end, rows)) {
      rows -= pool[end++].length();
    }
    count -= end - place;
    const bool from_first = place == pool.first();
    if (end > place) pool.TakePlaces(place, end, rank);
    if (from_first) place = end;
    if (count == 0) break;
    ++place;  // One that stays.
    --count;
  }
  if (fill.part == FillTerms::kNone) return;
  const Slice slice = pool.interval(fill.part).slice;
  const int64_t rows =
      std::min<int64_t>({fill.part_rows, rank.rows, slice.end - slice.begin});
  pool.Take(fill.part, slice.begin, slice.begin + rows, rank);
}

}  // namespace cpfeed

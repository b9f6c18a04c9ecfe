// The lightest rows that a rank can fill up with.

#ifndef CPFEED_CORE_PLAN_BALANCED_LIGHT_FILL_H_
#define CPFEED_CORE_PLAN_BALANCED_LIGHT_FILL_H_

#include <cstdint>

#include "core/plan/balanced/interval_pool.h"

namespace cpfeed {

// Which rows count as available. Made anew when the pool has changed.
struct FillTerms {
  static constexpr int32_t kNone = -1;
  static constexpr int64_t kNowhere = -1;

  // An interval whose top the rank takes: its head is in the prefix that the
  // rank receives anyway, so up to own_rows of it cost no traffic.
  int32_t own = kNone;
  int64_t own_rows = 0;
  // The place from which on intervals are heavier than own's head.
  int64_t own_place = 0;
  // An interval that is left alone.
  int32_t excluded = kNone;
  // Their places, kNowhere where there are none.
  int64_t own_at = kNowhere;
  int64_t excluded_at = kNowhere;
  // Where the last rows are only a part of an interval, they are own's head
  // instead, if it has as many.
  bool last_from_own = false;
};

// What the fill takes: whole intervals from the lightest on up to a place, but
// for own and excluded, and the head of one more.
struct LightFill {
  int64_t cost = 0;
  int64_t stop = 0;  // The place behind the whole intervals.
  int32_t part = FillTerms::kNone;
  int64_t part_rows = 0;
};

// Sets own_at and excluded_at.
void FindPlaces(const IntervalPool& pool, FillTerms& terms);

// The fill of so many rows; of fewer where there are not as many.
LightFill FindLightFill(IntervalPool& pool, const FillTerms& terms,
                        int64_t rows);

// Takes it. The terms are those that it was found by, and nothing was taken
// since.
void TakeLightFill(IntervalPool& pool, const FillTerms& terms,
                   const LightFill& fill, RankPart& rank);

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_BALANCED_LIGHT_FILL_H_

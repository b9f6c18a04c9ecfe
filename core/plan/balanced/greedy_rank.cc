#include "core/plan/balanced/greedy_rank.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "core/plan/attention_work.h"
#include "core/plan/balanced/light_fill.h"
#include "core/plan/balanced/mul_div.h"
#include "core/plan/balanced/row_cost.h"

namespace cpfeed {
namespace {

constexpr int kMostSteps = 32;

class GreedyRank {
 public:
  GreedyRank(IntervalPool& pool, int64_t mean, RankPart& rank)
      : pool_(pool),
        tile_(pool.row_cost().is_tile()),
        mean_(mean),
        tolerance_(mean / 1000),
        rank_(rank) {}

  void Fill() {
    TakeHeaviest();
    first_cut_ = terms_.own != kNone;
    for (int step = 0; step < kMostSteps; ++step) {
      if (rank_.rows == 0 || pool_.empty() || !Step()) break;
    }
    while (rank_.rows > 0 && !pool_.empty()) {
      const int64_t before = rank_.rows;
      if (terms_.own != kNone) terms_.own_rows = Length(terms_.own);
      FindPlaces(pool_, terms_);
      TakeLightFill(pool_, terms_, FindLightFill(pool_, terms_, rank_.rows),
                    rank_);
      if (rank_.rows == before) break;
      terms_.excluded = kNone;
      terms_.own_place = pool_.last();
    }
  }

 private:
  static constexpr int32_t kNone = FillTerms::kNone;

  int64_t Length(int32_t number) const {
    return pool_.interval(number).length();
  }
  int64_t TopCost(int32_t number, int64_t rows) const {
    const Slice& slice = pool_.interval(number).slice;
    return pool_.row_cost().Of(slice.sequence, slice.end - rows, slice.end);
  }
  int64_t FillCost(int64_t rows) {
    return FindLightFill(pool_, terms_, rows).cost;
  }

  // Own's head is taken before intervals that are denser, while it is light.
  void SetTerms() {
    own_order_ = std::numeric_limits<int64_t>::max();
    terms_.own_place = pool_.last();
    terms_.own_rows = 0;
    FindPlaces(pool_, terms_);
    if (terms_.own == kNone) return;
    terms_.own_rows = Length(terms_.own);
    if (terms_.own_rows == 0 || !pool_.row_cost().is_causal()) return;
    const int64_t head = pool_.interval(terms_.own).slice.begin;
    const int64_t head_density = head + rank_.rows / 4;
    if (head_density + rank_.rows / 4 > pool_density_ / 2) return;
    // Mostly intervals begin at 0, so their density is half of their end.
    own_order_ = 2 * head_density;
    terms_.own_place = pool_.FirstNotBelow(own_order_);
  }

  void TakeHeaviest() {
    pool_density_ =
        pool_.open_rows() == 0 ? 0 : pool_.open_cost() / pool_.open_rows();
    const int32_t heaviest = pool_.At(pool_.last() - 1);
    const int64_t length = Length(heaviest);
    terms_.own = heaviest;
    SetTerms();
    if (length > rank_.rows || rank_.cost <= FillCost(rank_.rows)) return;
    terms_ = {.own_place = pool_.last(), .excluded = heaviest};
    FindPlaces(pool_, terms_);
    const int64_t cost =
        pool_.interval(heaviest).cost + FillCost(rank_.rows - length);
    terms_.excluded = kNone;
    if (cost <= rank_.cost + tolerance_) {
      pool_.TakeAll(heaviest, rank_);
    } else {
      terms_.own = heaviest;
    }
  }

  // Whether there is more to do before the light fill.
  bool Step() {
    SetTerms();
    const int64_t fill = FillCost(rank_.rows);
    const int64_t surplus = rank_.cost - fill;
    if (surplus <= tolerance_) return false;
    int32_t number = terms_.own;
    if (!first_cut_) {
      const int64_t density = fill / rank_.rows;
      const int64_t limit = FirstTooHeavy(density, surplus);
      if (TakeBestFit(limit, fill, surplus)) return true;
      number = ChooseToCut(limit);
    }
    return Cut(number, surplus);
  }

  // The place of the first interval that would add more than the surplus.
  int64_t FirstTooHeavy(int64_t density, int64_t surplus) const {
    int64_t low = pool_.first();
    int64_t high = pool_.last();
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      const IntervalPool::Interval& interval = pool_[middle];
      const bool fits =
          interval.length() <= rank_.rows &&
          interval.cost - density * interval.length() <= surplus + tolerance_;
      (fits ? low : high) = fits ? middle + 1 : middle;
    }
    return low;
  }

  // The heaviest interval that fits whole, if it uses up a quarter of the
  // surplus.
  bool TakeBestFit(int64_t limit, int64_t fill, int64_t surplus) {
    constexpr int kTries = 6;
    const int64_t stop = FindLightFill(pool_, terms_, rank_.rows).stop;
    int64_t place = limit;
    for (int i = 0; i < kTries && place > stop && place > pool_.first();
         ++i, --place) {
      const int32_t number = pool_.At(place - 1);
      const int64_t length = Length(number);
      if (number == terms_.own || length > rank_.rows) continue;
      const int64_t added =
          pool_.interval(number).cost - fill + FillCost(rank_.rows - length);
      if (added > surplus + tolerance_) continue;
      if (added < surplus / 4) return false;
      pool_.TakeAll(number, rank_);
      return true;
    }
    return false;
  }

  int32_t ChooseToCut(int64_t limit) {
    int64_t place = limit;
    if (pool_.row_cost().is_causal()) {
      // Where rows are short, those taken must be dense enough.
      const int64_t needed = rank_.cost / rank_.rows + rank_.rows / 2;
      if (limit < pool_.last() && pool_[limit].length() > rank_.rows) {
        place = std::max(place, pool_.FirstNotBelow(needed + 1));
      }
    }
    if (place + 1 < pool_.last() && pool_.At(place) == terms_.own) ++place;
    int32_t number = pool_.At(std::min(place, pool_.last() - 1));
    if (terms_.own == kNone) {
      terms_.own = number;
    } else if (Length(terms_.own) > 0 && number != terms_.own) {
      // A wider band of its own mostly costs less traffic than a second one.
      const int64_t end = pool_.interval(number).slice.end;
      const int64_t own_end = pool_.interval(terms_.own).slice.end;
      if (end * (tile_ ? 5 : 10) > own_end) number = terms_.own;
    }
    return number;
  }

  // The cost of the rank with so many rows off the top of `number`.
  int64_t CostWith(int32_t number, int64_t rows) {
    FillTerms terms = terms_;
    if (number == terms.own) terms.own_rows -= rows;
    return TopCost(number, rows) +
           FindLightFill(pool_, terms, rank_.rows - rows).cost;
  }

  // A number of rows off the top and the rank's cost with it.
  struct Band {
    int64_t rows = 0;
    int64_t cost = 0;
  };
  // Neighbours: `less` costs less than what is missing, `enough` at least as
  // much. Both are the same where there is no such pair.
  struct Bands {
    Band less;
    Band enough;
  };

  // Bands in multiples of `unit` rows. The cost is about linear in the rows, so
  // the search goes where a line would meet it, and halves now and then.
  Bands FindBands(int32_t number, int64_t unit) {
    const int64_t most = std::min(rank_.rows, Length(number)) / unit * unit;
    Bands bands = {.less = {0, CostWith(number, 0)},
                   .enough = {most, CostWith(number, most)}};
    if (bands.less.cost >= rank_.cost) return {bands.less, bands.less};
    if (bands.enough.cost < rank_.cost) return {bands.enough, bands.enough};
    for (int step = 1; bands.enough.rows - bands.less.rows > unit; ++step) {
      const int64_t units = (bands.enough.rows - bands.less.rows) / unit;
      const int64_t ahead = step % 3 == 0
                                ? units / 2
                                : MulDiv(units, rank_.cost - bands.less.cost,
                                         bands.enough.cost - bands.less.cost);
      Band band;
      band.rows =
          bands.less.rows + std::clamp<int64_t>(ahead, 1, units - 1) * unit;
      band.cost = CostWith(number, band.rows);
      (band.cost < rank_.cost ? bands.less : bands.enough) = band;
    }
    return bands;
  }

  // What comes nearest to what is missing.
  Band NearestBand(int32_t number) {
    const Bands bands = FindBands(number, 1);
    return Error(bands.less) < Error(bands.enough) ? bands.less : bands.enough;
  }

  int64_t Error(const Band& band) const {
    return std::abs(band.cost - rank_.cost);
  }

  // The same, with the last rows of the fill from where it comes out better.
  int64_t ExactRows(int32_t number) {
    terms_.last_from_own = true;
    const Band from_own = NearestBand(number);
    if (Error(from_own) <= 2 * tolerance_) return from_own.rows;
    terms_.last_from_own = false;
    const Band other = NearestBand(number);
    if (Error(other) < Error(from_own)) return other.rows;
    terms_.last_from_own = true;
    return from_own.rows;
  }

  // Whether there is more to do.
  bool Cut(int32_t number, int64_t surplus) {
    terms_.excluded = number == terms_.own ? kNone : number;
    SetTerms();
    const bool was_first = first_cut_;
    first_cut_ = false;
    int64_t rows = 0;
    if (tile_) {
      rows = WholeTiles(number);
      const int64_t tile_row = kTileSize * pool_.interval(number).slice.end;
      const bool stuck = rows == 0 && !was_first &&
                         (number == terms_.own || surplus < tile_row / 2);
      if (stuck) return false;
    } else {
      rows = ExactRows(number);
    }
    const Slice slice = pool_.interval(number).slice;
    pool_.Take(number, slice.end - rows, slice.end, rank_);
    terms_.own_place = pool_.FirstNotBelow(own_order_);
    if (!tile_) return false;
    terms_.excluded = kNone;
    return true;
  }

  // Whole tiles off the top that do not cost too much; one more if that is
  // little too much.
  int64_t WholeTiles(int32_t number) {
    const Bands bands = FindBands(number, kTileSize);
    const int64_t tile_row = kTileSize * pool_.interval(number).slice.end;
    const int64_t slack = std::min(tile_row / 2, mean_ / 100);
    return bands.enough.cost <= rank_.cost + slack ? bands.enough.rows
                                                   : bands.less.rows;
  }

  IntervalPool& pool_;
  const bool tile_;
  const int64_t mean_;
  const int64_t tolerance_;
  RankPart& rank_;
  FillTerms terms_;
  int64_t pool_density_ = 0;
  // The order from which on intervals are denser than own's head.
  int64_t own_order_ = std::numeric_limits<int64_t>::max();
  bool first_cut_ = false;
};

}  // namespace

void FillGreedily(IntervalPool& pool, int64_t mean, RankPart& rank) {
  if (rank.rows == 0 || pool.empty()) return;
  GreedyRank(pool, mean, rank).Fill();
}

}  // namespace cpfeed

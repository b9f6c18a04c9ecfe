#include "core/plan/balanced/pair_rank.h"

#include <algorithm>

#include "core/plan/attention_work.h"
#include "core/plan/balanced/row_cost.h"

namespace cpfeed {
namespace {

// How many places are looked at on each side of the density that is needed.
constexpr int64_t kReach = 48;

// Cost per row as a fraction, compared without rounding.
struct Density {
  int64_t cost = 0;
  int64_t rows = 1;

  friend bool operator<(const Density& a, const Density& b) {
    return static_cast<__int128>(a.cost) * b.rows <
           static_cast<__int128>(b.cost) * a.rows;
  }
};

class PairRank {
 public:
  PairRank(IntervalPool& pool, int64_t mean, RankPart& rank)
      : pool_(pool),
        unit_(pool.row_cost().is_tile() ? kTileSize : 1),
        mean_(mean),
        rank_(rank) {}

  void Fill() {
    while (rank_.rows > 0 && !pool_.empty()) {
      if (const int64_t alone = FindAlone(); alone >= 0) {
        TakeBothEnds(pool_.At(alone));
        continue;
      }
      FindNeighbours();
      if (below_ == above_) {
        TakeBothEnds(pool_.At(below_));
      } else {
        TakeFromNeighbours();
      }
    }
  }

 private:
  Density DensityAt(int64_t place) const {
    return {.cost = pool_[place].cost, .rows = pool_[place].length()};
  }
  int64_t CostOf(const Slice& slice, int64_t begin, int64_t end) const {
    return pool_.row_cost().Of(slice.sequence, begin, end);
  }
  int64_t PlaceNear(int64_t order) const { return pool_.FirstNotBelow(order); }

  // The first interval whose head alone is too light and whose top alone is too
  // heavy, or -1.
  int64_t FindAlone() const {
    const int64_t from = PlaceNear(rank_.cost / rank_.rows + rank_.rows / 2);
    const int64_t to = std::min(pool_.last(), from + kReach);
    for (int64_t place = from; place < to; ++place) {
      const Slice& slice = pool_[place].slice;
      if (pool_[place].length() < rank_.rows) continue;
      if (CostOf(slice, slice.begin, slice.begin + rank_.rows) > rank_.cost ||
          CostOf(slice, slice.end - rank_.rows, slice.end) < rank_.cost) {
        continue;
      }
      // A tile row must not be a large part of a rank.
      if (unit_ > 1 && unit_ * slice.end > mean_ / 25) continue;
      return place;
    }
    return -1;
  }

  void FindNeighbours() {
    const Density needed = {.cost = rank_.cost, .rows = rank_.rows};
    const int64_t near = PlaceNear(2 * (rank_.cost / rank_.rows));
    Scan(std::max(pool_.first(), near - kReach),
         std::min(pool_.last(), near + kReach), needed);
    if (below_ < 0 || above_ < 0) Scan(pool_.first(), pool_.last(), needed);
    if (below_ < 0) below_ = lightest_;
    if (above_ < 0) above_ = heaviest_;
  }

  // The nearest intervals that are not denser and not less dense than needed,
  // and the extremes.
  void Scan(int64_t from, int64_t to, const Density& needed) {
    below_ = above_ = lightest_ = heaviest_ = -1;
    Density below, above, lightest, heaviest;
    for (int64_t place = from; place < to; ++place) {
      const Density density = DensityAt(place);
      if (!(needed < density) && (below_ < 0 || below < density)) {
        below_ = place;
        below = density;
      }
      if (!(density < needed) && (above_ < 0 || density < above)) {
        above_ = place;
        above = density;
      }
      if (lightest_ < 0 || density < lightest) {
        lightest_ = place;
        lightest = density;
      }
      if (heaviest_ < 0 || heaviest < density) {
        heaviest_ = place;
        heaviest = density;
      }
    }
  }

  // The rows from the heavier one of the two for rows and cost to come out.
  int64_t HeavyRows() const {
    const Density light = DensityAt(below_);
    const Density heavy = DensityAt(above_);
    const __int128 slope = static_cast<__int128>(heavy.cost) * light.rows -
                           static_cast<__int128>(light.cost) * heavy.rows;
    if (slope <= 0) return rank_.rows / 2;
    const __int128 missing = static_cast<__int128>(rank_.cost) * light.rows -
                             static_cast<__int128>(light.cost) * rank_.rows;
    const __int128 rows = (missing * heavy.rows + slope / 2) / slope;
    const auto clamped =
        static_cast<int64_t>(std::clamp<__int128>(rows, 0, rank_.rows));
    return std::min(rank_.rows, (clamped + unit_ / 2) / unit_ * unit_);
  }

  void TakeFromNeighbours() {
    const int32_t light = pool_.At(below_);
    const int32_t heavy = pool_.At(above_);
    const int64_t heavy_rows = HeavyRows();
    const int64_t light_rows = rank_.rows - heavy_rows;
    if (pool_.interval(heavy).length() <= heavy_rows) {
      pool_.TakeAll(heavy, rank_);
      return;
    }
    if (pool_.interval(light).length() <= light_rows) {
      pool_.TakeAll(light, rank_);
      return;
    }
    // Equally many off both ends keep the density of the rest.
    const int64_t top = light_rows / 2 / unit_ * unit_;
    TakeEnds(light, light_rows - top, top);
    if (rank_.rows > 0) TakeBothEnds(heavy);
  }

  void TakeEnds(int32_t number, int64_t head, int64_t top) {
    const Slice slice = pool_.interval(number).slice;
    pool_.Take(number, slice.end - top, slice.end, rank_);
    pool_.Take(number, slice.begin, slice.begin + head, rank_);
  }

  // All rows that the rank needs, or all there are, in whole tiles off the top
  // and the rest off the head, so that the cost comes nearest.
  void TakeBothEnds(int32_t number) {
    const Slice slice = pool_.interval(number).slice;
    const int64_t rows = std::min<int64_t>(rank_.rows, slice.end - slice.begin);
    const auto cost = [&](int64_t units) {
      const int64_t top = units * unit_;
      return CostOf(slice, slice.begin, slice.begin + rows - top) +
             CostOf(slice, slice.end - top, slice.end);
    };
    int64_t low = 0;
    int64_t high = rows / unit_;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (cost(middle) < rank_.cost) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    if (low > 0 && rank_.cost - cost(low - 1) < cost(low) - rank_.cost) --low;
    TakeEnds(number, rows - low * unit_, low * unit_);
  }

  IntervalPool& pool_;
  const int64_t unit_;  // Rows that are cut off together.
  const int64_t mean_;
  RankPart& rank_;
  // Places of the last scan, or -1.
  int64_t below_ = -1;
  int64_t above_ = -1;
  int64_t lightest_ = -1;
  int64_t heaviest_ = -1;
};

}  // namespace

void FillFromPair(IntervalPool& pool, int64_t mean, RankPart& rank) {
  PairRank(pool, mean, rank).Fill();
}

}  // namespace cpfeed

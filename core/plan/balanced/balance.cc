#include "core/plan/balanced/balance.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

#include "core/plan/attention_work.h"
#include "core/plan/balanced/greedy_rank.h"
#include "core/plan/balanced/mul_div.h"
#include "core/plan/balanced/pair_rank.h"
#include "core/plan/balanced/row_exchange.h"
#include "core/plan/balanced/slice_exchange.h"
#include "core/plan/balanced/window_rank.h"

namespace cpfeed {
namespace {

using Ranks = std::vector<std::vector<Slice>>;

constexpr int64_t kManyIntervals = 1024;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
// Ranks that are more rows over the bound are made anew, by windows.
constexpr int64_t kMostSingleRows = 16;

// Each rank a window over what the ranks before have left.
Ranks BalanceByWindows(absl::Span<const int64_t> real,
                       absl::Span<const int64_t> rank_rows,
                       const RowCost& cost) {
  IntervalPool pool(real, cost);
  const int64_t total_rows = pool.open_rows();
  const int64_t total_cost = pool.open_cost();
  Ranks ranks;
  ranks.reserve(rank_rows.size());
  int64_t rows = 0;
  int64_t placed = 0;
  for (const int64_t rank_row : rank_rows) {
    rows += rank_row;
    const int64_t aim =
        total_rows == 0 ? 0 : MulDiv(total_cost, rows, total_rows) - placed;
    RankPart rank{.rows = rank_row, .cost = aim};
    FillByWindow(pool, rank);
    placed += aim - rank.cost;
    ranks.push_back(std::move(rank.slices));
  }
  return ranks;
}

// Sequences so short that they carry next to no cost are dealt round the ranks
// beforehand, so that no rank gets hundreds of them.
class Dust {
 public:
  Dust(int64_t cp_size, IntervalPool& pool) {
    if (pool.empty()) return;
    const int64_t rows = pool.open_rows();
    const int64_t count = pool.last() - pool.first();
    const int64_t limit = std::min(rows / (4 * count), rows / (8 * cp_size));
    while (!pool.empty() && pool[pool.first()].slice.end < limit) {
      pieces_.push_back(pool.PopFirst());
      open_rows_ += pieces_.back().length();
      open_cost_ += pieces_.back().cost;
    }
  }

  void Deal(size_t rank, size_t cp_size, RankPart& part) {
    for (size_t i = rank; i < pieces_.size(); i += cp_size) {
      part.slices.push_back(pieces_[i].slice);
      part.rows -= pieces_[i].length();
      part.cost -= pieces_[i].cost;
      open_rows_ -= pieces_[i].length();
      open_cost_ -= pieces_[i].cost;
    }
  }

  int64_t open_rows() const { return open_rows_; }
  int64_t open_cost() const { return open_cost_; }

 private:
  std::vector<IntervalPool::Interval> pieces_;
  int64_t open_rows_ = 0;
  int64_t open_cost_ = 0;
};

class Balancer {
 public:
  Balancer(absl::Span<const int64_t> real, absl::Span<const int64_t> rank_rows,
           const RowCost& cost)
      : rank_rows_(rank_rows),
        tile_(cost.is_tile()),
        pool_(real, cost),
        mean_(pool_.open_cost() / static_cast<int64_t>(rank_rows.size())),
        rows_(pool_.open_rows()),
        dust_(static_cast<int64_t>(rank_rows.size()), pool_) {}

  int64_t mean() const { return mean_; }

  Ranks Run() {
    Ranks ranks;
    ranks.reserve(rank_rows_.size());
    for (size_t rank = 0; rank < rank_rows_.size(); ++rank) {
      RankPart part{.rows = rank_rows_[rank], .cost = Budget(rank)};
      dust_.Deal(rank, rank_rows_.size(), part);
      Fill(rank, part);
      ranks.push_back(std::move(part.slices));
    }
    return ranks;
  }

 private:
  // The rank's share of what is left.
  int64_t Budget(size_t rank) const {
    const int64_t rows = pool_.open_rows() + dust_.open_rows();
    if (rows == 0) return 0;
    const int64_t share =
        MulDiv(pool_.open_cost() + dust_.open_cost(), rank_rows_[rank], rows);
    if (!tile_) return share;
    // Cuts that are made later add partial tiles, which the first ranks take
    // part in.
    const auto cp_size = static_cast<int64_t>(rank_rows_.size());
    const int64_t per_mille =
        std::min<int64_t>(50, 750 * kTileSize * cp_size / rows_);
    return share + MulDiv(share,
                          per_mille * (cp_size - static_cast<int64_t>(rank)),
                          1000 * cp_size);
  }

  bool IsAccepted(const RankPart& part, bool many) const {
    if (part.rows != 0) return false;
    if (many && tile_) return std::abs(part.cost) <= mean_ / 100;
    if (!tile_) return std::abs(part.cost) <= mean_ / 2000 * 3;
    return part.cost <= mean_ / 100 * 15 && part.cost >= -mean_ / 100 * 3;
  }

  void Fill(size_t rank, RankPart& part) {
    if (part.rows == 0) return;
    if (rank + 1 == rank_rows_.size()) {
      while (!pool_.empty()) pool_.TakeAll(pool_.At(pool_.last() - 1), part);
      return;
    }
    // Out of a thousand intervals a pair takes too long: a window is tried.
    const bool many = pool_.last() - pool_.first() > kManyIntervals;
    const RankPart before = part;
    pool_.Mark();
    FillGreedily(pool_, mean_, part);
    if (IsAccepted(part, many)) return;
    const int64_t missed = part.rows == 0 ? std::abs(part.cost) : kNever;
    pool_.Restore();
    part = before;
    if (!many) {
      pool_.Mark();
      FillFromPair(pool_, mean_, part);
      if (tile_ || std::abs(part.cost) <= mean_ / 200) return;
      pool_.Restore();
      part = before;
    }
    if (std::abs(CostByWindow(pool_, part) - part.cost) <= missed) {
      FillByWindow(pool_, part);
    } else {
      FillGreedily(pool_, mean_, part);
    }
  }

  absl::Span<const int64_t> rank_rows_;
  const bool tile_;
  IntervalPool pool_;
  const int64_t mean_;
  const int64_t rows_;
  Dust dust_;
};

int64_t LargestCost(const RowCost& cost, const Ranks& ranks) {
  int64_t largest = 0;
  for (const std::vector<Slice>& slices : ranks) {
    int64_t sum = 0;
    for (const Slice& slice : slices) {
      sum += cost.Of(slice.sequence, slice.begin, slice.end);
    }
    largest = std::max(largest, sum);
  }
  return largest;
}

}  // namespace

std::vector<std::vector<Slice>> Balance(absl::Span<const int64_t> real,
                                        absl::Span<const int64_t> rank_rows,
                                        const RowCost& cost) {
  Balancer balancer(real, rank_rows, cost);
  const int64_t mean = balancer.mean();
  Ranks ranks = balancer.Run();
  for (std::vector<Slice>& slices : ranks) Canonicalize(slices);
  if (cost.is_tile()) {
    ExchangeSlices(cost,
                   {.mean = mean, .most = mean + mean / 40, .unit = kTileSize},
                   ranks);
    return ranks;
  }
  const ExchangeGoal goal = {.mean = mean, .most = mean + cost.Heaviest()};
  ExchangeSlices(cost, goal, ranks);
  const int64_t largest = LargestCost(cost, ranks);
  if (largest > goal.most + kMostSingleRows * cost.Heaviest()) {
    Ranks windows = BalanceByWindows(real, rank_rows, cost);
    if (LargestCost(cost, windows) < largest) ranks = std::move(windows);
  }
  ExchangeRows(cost, ranks);
  for (std::vector<Slice>& slices : ranks) Canonicalize(slices);
  return ranks;
}

}  // namespace cpfeed

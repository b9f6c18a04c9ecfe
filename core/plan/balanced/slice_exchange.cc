#include "core/plan/balanced/slice_exchange.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>

#include "core/plan/balanced/mul_div.h"
#include "core/plan/balanced/row_exchange.h"

namespace cpfeed {
namespace {

constexpr size_t kPartners = 8;
constexpr size_t kSlices = 32;
// Bounds the time, on every machine alike: a look at an exchange is 1, its
// costs are kWeighing more. Where a rank is far above the goal, more is worth
// it, and so is more traffic.
constexpr int64_t kMostWork = 60000;
constexpr int64_t kMostWorkWhileFar = 200000;
constexpr int64_t kWeighing = 3;
constexpr int64_t kTrafficWeight = 10;  // A tenth of the mean cost.
constexpr int64_t kTrafficWeightWhileFar = 40;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// Rows of a slice at one of its ends.
struct EndPiece {
  size_t index = 0;
  bool at_top = false;

  Slice Of(const Slice& slice, int64_t rows) const {
    const auto count = static_cast<int32_t>(rows);
    if (at_top) return {slice.sequence, slice.end - count, slice.end};
    return {slice.sequence, slice.begin, slice.begin + count};
  }
  Slice Rest(const Slice& slice, int64_t rows) const {
    const auto count = static_cast<int32_t>(rows);
    if (at_top) return {slice.sequence, slice.begin, slice.end - count};
    return {slice.sequence, slice.begin + count, slice.end};
  }
};

struct Exchange {
  size_t partner = 0;
  EndPiece dear;
  EndPiece cheap;
  int64_t rows = 0;
};

class SliceExchange {
 public:
  SliceExchange(const RowCost& cost, const ExchangeGoal& goal,
                std::vector<std::vector<Slice>>& ranks)
      : cost_(cost),
        goal_(goal),
        ranks_(ranks),
        loads_(ranks.size(), 0),
        stuck_(ranks.size(), 0) {
    for (size_t rank = 0; rank < ranks.size(); ++rank) Measure(rank);
  }

  void Run() {
    while (work_ < kMostWorkWhileFar) {
      const size_t dearest = Dearest();
      if (dearest == ranks_.size() || loads_[dearest] <= goal_.most) return;
      far_ = loads_[dearest] > goal_.most + goal_.mean / 80;
      if (work_ >= kMostWork && !far_) return;
      if (!FindBest(dearest)) {
        stuck_[dearest] = 1;
        continue;
      }
      Apply(dearest);
    }
  }

 private:
  int64_t CostOf(const Slice& slice) const {
    return cost_.Of(slice.sequence, slice.begin, slice.end);
  }

  void Measure(size_t rank) {
    loads_[rank] = 0;
    for (const Slice& slice : ranks_[rank]) loads_[rank] += CostOf(slice);
  }

  size_t Dearest() const {
    size_t dearest = ranks_.size();
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (stuck_[rank] != 0) continue;
      if (dearest == ranks_.size() || loads_[rank] > loads_[dearest]) {
        dearest = rank;
      }
    }
    return dearest;
  }

  std::vector<size_t> Cheapest(size_t most) const {
    std::vector<size_t> order(ranks_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const size_t count = std::min(most, order.size());
    std::partial_sort(order.begin(), order.begin() + count, order.end(),
                      [this](size_t a, size_t b) {
                        return loads_[a] != loads_[b] ? loads_[a] < loads_[b]
                                                      : a < b;
                      });
    order.resize(count);
    return order;
  }

  // What traffic counts for begins that add up to `longest_`.
  int64_t TrafficCost() const {
    return goal_.mean / (far_ ? kTrafficWeightWhileFar : kTrafficWeight);
  }

  // Costs of both ranks after an exchange and the traffic that it may add, in
  // one number; lower is better.
  int64_t Score(int64_t dear, int64_t cheap, int64_t begins) const {
    return std::max({dear, cheap, goal_.most}) +
           TrafficCost() * begins / longest_;
  }

  void SetBest(const Exchange& exchange, int64_t load, int64_t score) {
    best_ = exchange;
    best_load_ = load;
    best_score_ = score;
    // Score(0, 0, begins) < score, solved for begins: a look divides nothing.
    most_begins_ = score == kNever || TrafficCost() == 0
                       ? kNever
                       : MulDiv(score - goal_.most, longest_, TrafficCost());
  }

  bool FindBest(size_t dearest) {
    longest_ = 1;
    for (const Slice& slice : ranks_[dearest]) {
      longest_ = std::max<int64_t>(longest_, slice.end);
    }
    SetBest({}, kNever, kNever);
    TryPartners(dearest, kPartners);
    if (best_.rows == 0 && far_) TryPartners(dearest, ranks_.size());
    return best_.rows > 0;
  }

  void TryPartners(size_t dearest, size_t most) {
    for (const size_t partner : Cheapest(most)) {
      if (partner == dearest || loads_[partner] >= goal_.mean) continue;
      const size_t dear_count = std::min(kSlices, ranks_[dearest].size());
      const size_t cheap_count = std::min(kSlices, ranks_[partner].size());
      for (size_t i = 0; i < dear_count; ++i) {
        for (size_t j = 0; j < cheap_count; ++j) Try(dearest, partner, i, j);
      }
      if (best_load_ <= goal_.most) return;
    }
  }

  // A row costs about its position, so this many rows should be exchanged to
  // bring both ranks together.
  void Try(size_t dearest, size_t partner, size_t i, size_t j) {
    const Slice& dear = ranks_[dearest][i];
    const Slice& cheap = ranks_[partner][j];
    if (dear.end <= cheap.begin) return;
    const int64_t most =
        std::min(dear.end - dear.begin, cheap.end - cheap.begin);
    const int64_t difference = loads_[dearest] - loads_[partner];
    for (const bool dear_top : {true, false}) {
      for (const bool cheap_top : {false, true}) {
        const int64_t gain = (dear_top ? dear.end : dear.begin) -
                             (cheap_top ? cheap.end : cheap.begin);
        if (gain <= 0) continue;
        const int64_t tiles = difference / (2 * kTileSize * gain);
        for (const int64_t whole : {tiles, tiles + 1}) {
          const int64_t rows = std::min(whole * kTileSize, most);
          if (rows == 0) continue;
          // The partner would become the dearer one.
          if (rows * gain > difference + difference / 4) break;
          TryEnds(dearest, {.partner = partner,
                            .dear = {.index = i, .at_top = dear_top},
                            .cheap = {.index = j, .at_top = cheap_top},
                            .rows = rows});
          if (rows == most) break;
        }
      }
    }
  }

  void TryEnds(size_t dearest, const Exchange& exchange) {
    ++work_;
    const Slice& dear = ranks_[dearest][exchange.dear.index];
    const Slice& cheap = ranks_[exchange.partner][exchange.cheap.index];
    const int64_t rows = exchange.rows;
    const Slice given = exchange.dear.Of(dear, rows);
    const Slice got = exchange.cheap.Of(cheap, rows);
    const int64_t begins = int64_t{given.begin} + got.begin;
    if (begins > most_begins_) return;
    work_ += kWeighing;
    const int64_t dear_load = loads_[dearest] - CostOf(dear) +
                              CostOf(exchange.dear.Rest(dear, rows)) +
                              CostOf(got);
    const int64_t cheap_load = loads_[exchange.partner] - CostOf(cheap) +
                               CostOf(exchange.cheap.Rest(cheap, rows)) +
                               CostOf(given);
    // Enough is gained.
    const int64_t worse =
        std::max({dear_load, cheap_load, goal_.most}) + goal_.mean / 500;
    if (worse > std::max(loads_[dearest], goal_.most + goal_.mean / 500) ||
        std::max(dear_load, cheap_load) >= loads_[dearest]) {
      return;
    }
    const int64_t score = Score(dear_load, cheap_load, begins);
    if (score >= best_score_) return;
    SetBest(exchange, std::max(dear_load, cheap_load), score);
  }

  void Apply(size_t dearest) {
    std::vector<Slice>& dear = ranks_[dearest];
    std::vector<Slice>& cheap = ranks_[best_.partner];
    Slice& from_dear = dear[best_.dear.index];
    Slice& from_cheap = cheap[best_.cheap.index];
    const Slice given = best_.dear.Of(from_dear, best_.rows);
    const Slice got = best_.cheap.Of(from_cheap, best_.rows);
    from_dear = best_.dear.Rest(from_dear, best_.rows);
    from_cheap = best_.cheap.Rest(from_cheap, best_.rows);
    dear.push_back(got);
    cheap.push_back(given);
    for (const size_t rank : {dearest, best_.partner}) {
      work_ += static_cast<int64_t>(ranks_[rank].size());
      Canonicalize(ranks_[rank]);
      Measure(rank);
      stuck_[rank] = 0;
    }
  }

  const RowCost& cost_;
  const ExchangeGoal goal_;
  std::vector<std::vector<Slice>>& ranks_;
  std::vector<int64_t> loads_;
  std::vector<char> stuck_;
  bool far_ = false;  // The dearest rank is far above the goal.
  int64_t longest_ = 1;
  Exchange best_;
  int64_t best_score_ = 0;
  int64_t best_load_ = 0;    // Of the dearer rank afterwards.
  int64_t most_begins_ = 0;  // Of exchanges that could be better.
  int64_t work_ = 0;
};

}  // namespace

void ExchangeSlices(const RowCost& cost, const ExchangeGoal& goal,
                    std::vector<std::vector<Slice>>& ranks) {
  SliceExchange(cost, goal, ranks).Run();
}

}  // namespace cpfeed

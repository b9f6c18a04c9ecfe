#include "core/plan/balanced/row_exchange.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace cpfeed {
namespace {

int64_t CostOf(const RowCost& cost, const Slice& slice) {
  return cost.Of(slice.sequence, slice.begin, slice.end);
}

// Takes the last row of the slice whose last row is the heaviest.
Slice TakeHeaviest(const RowCost& cost, std::vector<Slice>& slices) {
  const auto last_row = [](const Slice& slice) {
    return Slice{slice.sequence, slice.end - 1, slice.end};
  };
  auto heaviest = slices.begin();
  for (auto slice = slices.begin(); slice != slices.end(); ++slice) {
    if (CostOf(cost, last_row(*slice)) > CostOf(cost, last_row(*heaviest))) {
      heaviest = slice;
    }
  }
  const Slice row = last_row(*heaviest);
  if (--heaviest->end == heaviest->begin) {
    *heaviest = slices.back();
    slices.pop_back();
  }
  return row;
}

// Takes the first row of the slice whose first row is the lightest.
Slice TakeLightest(const RowCost& cost, std::vector<Slice>& slices) {
  const auto first_row = [](const Slice& slice) {
    return Slice{slice.sequence, slice.begin, slice.begin + 1};
  };
  auto lightest = slices.begin();
  for (auto slice = slices.begin(); slice != slices.end(); ++slice) {
    if (CostOf(cost, first_row(*slice)) < CostOf(cost, first_row(*lightest))) {
      lightest = slice;
    }
  }
  const Slice row = first_row(*lightest);
  if (++lightest->begin == lightest->end) {
    *lightest = slices.back();
    slices.pop_back();
  }
  return row;
}

}  // namespace

int64_t ExchangeRows(const RowCost& cost,
                     std::vector<std::vector<Slice>>& ranks) {
  std::vector<int64_t> costs(ranks.size(), 0);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const Slice& slice : ranks[rank]) costs[rank] += CostOf(cost, slice);
  }
  const auto cp_size = static_cast<int64_t>(ranks.size());
  const int64_t total = std::accumulate(costs.begin(), costs.end(), int64_t{0});
  // The largest cost that is at most total / cp_size + heaviest.
  const int64_t limit = total / cp_size + cost.Heaviest();
  int64_t exchanged = 0;
  while (true) {
    const auto [least, most] = std::minmax_element(costs.begin(), costs.end());
    if (*most <= limit) return exchanged;
    std::vector<Slice>& dear = ranks[most - costs.begin()];
    std::vector<Slice>& cheap = ranks[least - costs.begin()];
    const Slice heavy = TakeHeaviest(cost, dear);
    const Slice light = TakeLightest(cost, cheap);
    dear.push_back(light);
    cheap.push_back(heavy);
    const int64_t moved = CostOf(cost, heavy) - CostOf(cost, light);
    *most -= moved;
    *least += moved;
    ++exchanged;
  }
}

void Canonicalize(std::vector<Slice>& slices) {
  std::sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) {
    return a.sequence != b.sequence ? a.sequence < b.sequence
                                    : a.begin < b.begin;
  });
  size_t kept = 0;
  for (const Slice& slice : slices) {
    if (slice.begin == slice.end) continue;
    const bool joins = kept > 0 &&
                       slices[kept - 1].sequence == slice.sequence &&
                       slices[kept - 1].end == slice.begin;
    if (joins) {
      slices[kept - 1].end = slice.end;
    } else {
      slices[kept++] = slice;
    }
  }
  slices.resize(kept);
}

}  // namespace cpfeed

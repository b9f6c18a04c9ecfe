#include "core/plan/balanced/interval_pool.h"

#include <algorithm>

namespace cpfeed {

IntervalPool::IntervalPool(absl::Span<const int64_t> real, const RowCost& cost)
    : cost_(cost) {
  intervals_.reserve(real.size());
  for (size_t s = 0; s < real.size(); ++s) {
    if (real[s] == 0) continue;
    order_.push_back(static_cast<int32_t>(intervals_.size()));
    intervals_.emplace_back().slice.sequence = static_cast<int32_t>(s);
    SetSlice(order_.back(), 0, real[s]);
    open_rows_ += real[s];
    open_cost_ += intervals_.back().cost;
  }
  std::sort(order_.begin(), order_.end(),
            [this](int32_t a, int32_t b) { return Lighter(a, b); });
}

bool IntervalPool::Lighter(int32_t a, int32_t b) const {
  const int64_t order_a = intervals_[a].order;
  const int64_t order_b = intervals_[b].order;
  return order_a != order_b ? order_a < order_b : a < b;
}

int64_t IntervalPool::PlaceOf(int32_t number) const {
  const auto place =
      std::lower_bound(order_.begin() + first_, order_.end(), number,
                       [this](int32_t a, int32_t b) { return Lighter(a, b); });
  return place - order_.begin();
}

int64_t IntervalPool::FirstNotBelow(int64_t order) const {
  const auto place =
      std::lower_bound(order_.begin() + first_, order_.end(), order,
                       [this](int32_t number, int64_t value) {
                         return intervals_[number].order < value;
                       });
  return place - order_.begin();
}

// Both move the shorter side.
void IntervalPool::Erase(int64_t place) {
  const auto at = order_.begin() + place;
  if (place - first_ < last() - place) {
    std::move_backward(order_.begin() + first_, at, at + 1);
    ++first_;
  } else {
    order_.erase(at);
  }
}

void IntervalPool::Insert(int32_t number) {
  const int64_t place = PlaceOf(number);
  const auto at = order_.begin() + place;
  if (first_ > 0 && place - first_ < last() - place) {
    std::move(order_.begin() + first_, at, order_.begin() + first_ - 1);
    --first_;
    order_[place - 1] = number;
  } else {
    order_.insert(at, number);
  }
}

void IntervalPool::SetSlice(int32_t number, int64_t begin, int64_t end) {
  Interval& interval = intervals_[number];
  interval.slice.begin = static_cast<int32_t>(begin);
  interval.slice.end = static_cast<int32_t>(end);
  interval.order = cost_.Order(interval.slice.sequence, end);
  interval.cost = cost_.Of(interval.slice.sequence, begin, end);
}

void IntervalPool::TakeAll(int32_t number, RankPart& rank) {
  const Slice slice = intervals_[number].slice;
  Take(number, slice.begin, slice.end, rank);
}

void IntervalPool::Take(int32_t number, int64_t begin, int64_t end,
                        RankPart& rank) {
  if (begin == end) return;
  const Interval before = intervals_[number];
  const auto [sequence, first, last] = before.slice;
  log_.push_back({.number = number, .before = before});
  rank.slices.push_back({.sequence = sequence,
                         .begin = static_cast<int32_t>(begin),
                         .end = static_cast<int32_t>(end)});
  rank.rows -= end - begin;
  rank.cost -= cost_.Of(sequence, begin, end);
  open_rows_ -= end - begin;
  open_cost_ -= before.cost;
  const bool keeps_place = begin == first && end < last;
  if (!keeps_place) Erase(PlaceOf(number));
  if (begin > first) {
    SetSlice(number, first, begin);
    open_cost_ += intervals_[number].cost;
    Insert(number);
    if (end == last) return;
    // Out of the middle: what lies behind becomes an interval of its own.
    number = static_cast<int32_t>(intervals_.size());
    intervals_.push_back(before);
  }
  SetSlice(number, end, last);
  open_cost_ += intervals_[number].cost;
  if (begin > first) Insert(number);
}

void IntervalPool::Restore() {
  for (; !log_.empty(); log_.pop_back()) {
    const auto& [number, before] = log_.back();
    Interval& now = intervals_[number];
    open_rows_ += before.length() - now.length();
    open_cost_ += before.cost - now.cost;
    if (now.order == before.order && now.length() > 0) {
      now = before;
      continue;
    }
    if (now.length() > 0) Erase(PlaceOf(number));
    now = before;
    Insert(number);
  }
}

}  // namespace cpfeed

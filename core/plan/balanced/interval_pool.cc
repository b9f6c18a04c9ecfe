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
  // Cuts out of the middle add intervals; sums follow when they are needed.
  sums_.resize(order_.size() + 1);
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

void IntervalPool::Erase(int64_t place) {
  if (place == first_) {
    ++first_;
    if (summed_ < first_) ResetSums();
    return;
  }
  order_.erase(order_.begin() + place);
  summed_ = std::min(summed_, place);
}

void IntervalPool::Insert(int32_t number) {
  const int64_t place = PlaceOf(number);
  if (place == first_ && first_ > 0) {
    order_[--first_] = number;
    ResetSums();
    return;
  }
  order_.insert(order_.begin() + place, number);
  if (sums_.size() <= order_.size()) sums_.resize(order_.size() + 1);
  summed_ = std::min(summed_, place);
}

void IntervalPool::ResetSums() {
  summed_ = first_;
  sums_[first_] = {};
}

void IntervalPool::SumNext() {
  const Interval& interval = (*this)[summed_];
  const Sum& sum = sums_[summed_];
  sums_[summed_ + 1] = {.rows = sum.rows + interval.length(),
                        .cost = sum.cost + interval.cost};
  ++summed_;
}

int64_t IntervalPool::PlaceAfterRows(int64_t place, int64_t end, int64_t rows) {
  const int64_t most = SumBefore(place).rows + rows;
  while (summed_ < end && sums_[summed_].rows <= most) SumNext();
  const auto behind = std::upper_bound(
      sums_.begin() + place, sums_.begin() + std::min(summed_, end) + 1, most,
      [](int64_t value, const Sum& sum) { return value < sum.rows; });
  return behind - sums_.begin() - 1;
}

IntervalPool::Interval IntervalPool::PopFirst() {
  const Interval interval = (*this)[first_];
  open_rows_ -= interval.length();
  open_cost_ -= interval.cost;
  Erase(first_);
  return interval;
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
  const int64_t place = PlaceOf(number);
  if (keeps_place) {
    summed_ = std::max(first_, std::min(summed_, place));
  } else {
    Erase(place);
  }
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

void IntervalPool::TakePlaces(int64_t begin, int64_t end, RankPart& rank) {
  for (int64_t place = begin; place < end; ++place) {
    const Interval& interval = (*this)[place];
    log_.push_back({.number = At(place), .before = interval});
    rank.slices.push_back(interval.slice);
    rank.rows -= interval.length();
    rank.cost -= interval.cost;
    open_rows_ -= interval.length();
    open_cost_ -= interval.cost;
    SetSlice(At(place), interval.slice.end, interval.slice.end);
  }
  if (begin == first_) {
    first_ = end;
    if (summed_ < first_) ResetSums();
  } else {
    order_.erase(order_.begin() + begin, order_.begin() + end);
    summed_ = std::min(summed_, begin);
  }
}

void IntervalPool::Restore() {
  // One at a time moves all intervals behind it.
  constexpr size_t kFew = 64;
  if (log_.size() <= kFew) {
    RestoreOneByOne();
  } else {
    RestoreAtOnce();
  }
}

void IntervalPool::RestoreOneByOne() {
  for (; !log_.empty(); log_.pop_back()) {
    const auto& [number, before] = log_.back();
    Interval& now = intervals_[number];
    open_rows_ += before.length() - now.length();
    open_cost_ += before.cost - now.cost;
    if (now.order == before.order && now.length() > 0) {
      summed_ = std::min(summed_, PlaceOf(number));
      now = before;
      continue;
    }
    if (now.length() > 0) Erase(PlaceOf(number));
    now = before;
    Insert(number);
  }
}

void IntervalPool::RestoreAtOnce() {
  std::vector<int32_t> changed;
  for (; !log_.empty(); log_.pop_back()) {
    const auto& [number, before] = log_.back();
    Interval& now = intervals_[number];
    open_rows_ += before.length() - now.length();
    open_cost_ += before.cost - now.cost;
    now = before;
    changed.push_back(number);
  }
  std::sort(changed.begin(), changed.end());
  changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
  std::vector<int32_t> order;
  order.reserve(order_.size());
  for (int64_t place = first_; place < last(); ++place) {
    const bool moved =
        std::binary_search(changed.begin(), changed.end(), order_[place]);
    if (!moved) order.push_back(order_[place]);
  }
  const auto lighter = [this](int32_t a, int32_t b) { return Lighter(a, b); };
  std::sort(changed.begin(), changed.end(), lighter);
  order_.resize(order.size() + changed.size());
  std::merge(order.begin(), order.end(), changed.begin(), changed.end(),
             order_.begin(), lighter);
  if (sums_.size() <= order_.size()) sums_.resize(order_.size() + 1);
  first_ = 0;
  ResetSums();
}

}  // namespace cpfeed

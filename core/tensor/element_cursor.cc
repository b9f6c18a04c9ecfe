#include "core/tensor/element_cursor.h"

#include <algorithm>
#include <cstring>

#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

template <class T>
T Load(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof(T));
  return value;
}

// How many of the first `count` elements equal `value` before one does not.
template <class T>
int64_t EqualPrefix(const std::byte* data, int64_t count, int64_t wide_value) {
  const T value = static_cast<T>(wide_value);
  if (value != wide_value) return 0;
  // Blocks first: their inner loop has no branch and becomes vector code.
  constexpr int64_t kBlock = 64;
  int64_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    T difference = 0;
    for (int64_t j = 0; j < kBlock; ++j) {
      difference |= Load<T>(data + (i + j) * sizeof(T)) ^ value;
    }
    if (difference != 0) break;
  }
  while (i < count && Load<T>(data + i * sizeof(T)) == value) ++i;
  return i;
}

}  // namespace

ElementCursor::ElementCursor(const Buffer& bytes, int64_t item_size)
    : fragments_(bytes.fragments()), item_size_(item_size) {
  CF_CHECK(item_size == 1 || item_size == 2 || item_size == 4 ||
           item_size == 8);
  CF_CHECK(bytes.size() % item_size == 0);
  FindRun();
}

void ElementCursor::TakeFragment() {
  rest_ = fragments_[next_fragment_].data;
  rest_bytes_ = fragments_[next_fragment_].size;
  ++next_fragment_;
}

void ElementCursor::FindRun() {
  if (rest_bytes_ == 0 && next_fragment_ < fragments_.size()) TakeFragment();
  if (rest_bytes_ == 0) {
    run_ = Run();
    return;
  }
  const int64_t whole = rest_bytes_ / item_size_;
  if (whole > 0) {
    run_ = Run{.data = rest_, .count = whole};
    rest_ += whole * item_size_;
    rest_bytes_ -= whole * item_size_;
    return;
  }
  for (int64_t have = 0; have < item_size_;) {
    if (rest_bytes_ == 0) TakeFragment();
    const int64_t taken = std::min(item_size_ - have, rest_bytes_);
    std::memcpy(joined_ + have, rest_, static_cast<size_t>(taken));
    rest_ += taken;
    rest_bytes_ -= taken;
    have += taken;
  }
  run_ = Run{.data = joined_, .count = 1};
}

void ElementCursor::Advance(int64_t count) {
  CF_CHECK(count >= 0 && count <= run_.count);
  run_.data += count * item_size_;
  run_.count -= count;
  if (run_.count == 0) FindRun();
}

void ElementCursor::Skip(int64_t count) {
  while (count > 0) {
    const int64_t step = std::min(count, run_.count);
    CF_CHECK(step > 0);
    Advance(step);
    count -= step;
  }
}

int64_t ElementCursor::SkipEqual(int64_t limit, int64_t value) {
  int64_t total = 0;
  while (total < limit && run_.count > 0) {
    const int64_t count = std::min(limit - total, run_.count);
    int64_t equal = 0;
    switch (item_size_) {
      case 1:
        equal = EqualPrefix<int8_t>(run_.data, count, value);
        break;
      case 2:
        equal = EqualPrefix<int16_t>(run_.data, count, value);
        break;
      case 4:
        equal = EqualPrefix<int32_t>(run_.data, count, value);
        break;
      default:
        equal = EqualPrefix<int64_t>(run_.data, count, value);
    }
    Advance(equal);
    total += equal;
    if (equal < count) break;
  }
  return total;
}

int64_t ElementCursor::Value() const {
  CF_CHECK(run_.count > 0);
  switch (item_size_) {
    case 1:
      return Load<int8_t>(run_.data);
    case 2:
      return Load<int16_t>(run_.data);
    case 4:
      return Load<int32_t>(run_.data);
    default:
      return Load<int64_t>(run_.data);
  }
}

}  // namespace cpfeed

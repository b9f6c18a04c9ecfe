// A set of stream positions, one bit each.

#ifndef CPFEED_CORE_PLAN_POSITION_SET_H_
#define CPFEED_CORE_PLAN_POSITION_SET_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

namespace cpfeed {

// Positions in [0, size), at first none. Works on 64 positions at a time.
class PositionSet {
 public:
  explicit PositionSet(int64_t size) : words_((size + 63) / 64, 0) {}

  // Adds [begin, end). Returns the first of them that was in it before; then
  // those behind it may be missing.
  std::optional<int64_t> Insert(int64_t begin, int64_t end) {
    for (int64_t word = begin / 64; word * 64 < end; ++word) {
      const uint64_t mask = Mask(word, begin, end);
      if (const uint64_t twice = words_[word] & mask; twice != 0) {
        return word * 64 + std::countr_zero(twice);
      }
      words_[word] |= mask;
    }
    return std::nullopt;
  }

  // The first of [begin, end) that is not in it.
  std::optional<int64_t> FirstMissing(int64_t begin, int64_t end) const {
    for (int64_t word = begin / 64; word * 64 < end; ++word) {
      const uint64_t missing = ~words_[word] & Mask(word, begin, end);
      if (missing != 0) return word * 64 + std::countr_zero(missing);
    }
    return std::nullopt;
  }

 private:
  // The bits of `word` that stand for positions in [begin, end).
  static uint64_t Mask(int64_t word, int64_t begin, int64_t end) {
    const int64_t from = std::max<int64_t>(begin - word * 64, 0);
    const int64_t to = std::min<int64_t>(end - word * 64, 64);
    return (~uint64_t{0} << from) & (~uint64_t{0} >> (64 - to));
  }

  std::vector<uint64_t> words_;
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_POSITION_SET_H_

// Arithmetic on sizes that come from outside: overflow is an answer, not a
// wrap-around.

#ifndef CPFEED_CORE_BASE_CHECKED_MATH_H_
#define CPFEED_CORE_BASE_CHECKED_MATH_H_

#include <cstdint>
#include <optional>

namespace cpfeed {

// a * b, or nothing if the product does not fit int64.
inline std::optional<int64_t> CheckedMul(int64_t a, int64_t b) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

// a + b, or nothing if the sum does not fit int64.
inline std::optional<int64_t> CheckedAdd(int64_t a, int64_t b) {
  int64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

// The least multiple of `multiple` (at least 1) that is not below `value`.
inline int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace cpfeed

#endif  // CPFEED_CORE_BASE_CHECKED_MATH_H_

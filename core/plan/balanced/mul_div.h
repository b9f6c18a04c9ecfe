// a * b / c without overflow in between.

#ifndef CPFEED_CORE_PLAN_BALANCED_MUL_DIV_H_
#define CPFEED_CORE_PLAN_BALANCED_MUL_DIV_H_

#include <cstdint>

namespace cpfeed {

// Rounded towards 0; the quotient fits int64. c is not 0.
inline int64_t MulDiv(int64_t a, int64_t b, int64_t c) {
  return static_cast<int64_t>(static_cast<__int128>(a) * b / c);
}

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_BALANCED_MUL_DIV_H_

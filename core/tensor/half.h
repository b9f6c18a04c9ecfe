// 16-bit floats, which this C++ has no type for.

#ifndef CPFEED_CORE_TENSOR_HALF_H_
#define CPFEED_CORE_TENSOR_HALF_H_

#include <bit>
#include <cmath>
#include <cstdint>

namespace cpfeed {

// The value of a bfloat16: the upper half of a float32.
inline float Bfloat16ToFloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// The value of an IEEE 754 binary16: 1 bit sign, 5 exponent, 10 fraction.
inline float Float16ToFloat(uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f;
  const int fraction = bits & 0x3ff;
  float magnitude;
  if (exponent == 0x1f) {
    magnitude = fraction == 0 ? INFINITY : NAN;
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(fraction), -24);
  } else {
    magnitude = std::ldexp(static_cast<float>(fraction | 0x400), exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

}  // namespace cpfeed

#endif  // CPFEED_CORE_TENSOR_HALF_H_

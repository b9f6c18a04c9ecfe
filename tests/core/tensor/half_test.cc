#include "core/tensor/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace cpfeed {
namespace {

TEST(HalfTest, Float16HasNormalSubnormalAndSpecialValues) {
  EXPECT_EQ(Float16ToFloat(0x0000), 0.0f);
  EXPECT_TRUE(std::signbit(Float16ToFloat(0x8000)));
  EXPECT_EQ(Float16ToFloat(0x3c00), 1.0f);
  EXPECT_EQ(Float16ToFloat(0xc000), -2.0f);
  EXPECT_EQ(Float16ToFloat(0x7bff), 65504.0f);                  // Largest.
  EXPECT_EQ(Float16ToFloat(0x0400), std::ldexp(1.0f, -14));     // Normal.
  EXPECT_EQ(Float16ToFloat(0x0001), std::ldexp(1.0f, -24));     // Subnormal.
  EXPECT_EQ(Float16ToFloat(0x03ff), std::ldexp(1023.0f, -24));  // The largest.
  EXPECT_EQ(Float16ToFloat(0xfc00), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(Float16ToFloat(0x7e00)));
}

TEST(HalfTest, Bfloat16IsTheUpperHalfOfFloat32) {
  EXPECT_EQ(Bfloat16ToFloat(0x3f80), 1.0f);
  EXPECT_EQ(Bfloat16ToFloat(0xc040), -3.0f);
  EXPECT_TRUE(std::isinf(Bfloat16ToFloat(0x7f80)));
}

}  // namespace
}  // namespace cpfeed

#include "core/tensor/shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOkAndHolds;
using ::cpfeed::testing::StatusIs;
using ::testing::HasSubstr;

constexpr int64_t kHuge = int64_t{1} << 62;

TEST(ShapeTest, ElementsAreTheProduct) {
  EXPECT_THAT(NumElements({}), IsOkAndHolds(1));  // A scalar.
  EXPECT_THAT(NumElements({7}), IsOkAndHolds(7));
  EXPECT_THAT(NumElements({2, 3, 4}), IsOkAndHolds(24));
  EXPECT_THAT(NumElements({5, 0, 3}), IsOkAndHolds(0));
  EXPECT_THAT(NumElements({INT64_MAX}), IsOkAndHolds(INT64_MAX));
}

TEST(ShapeTest, BytesAreElementsTimesItemSize) {
  EXPECT_THAT(NumBytes(DType::kBfloat16, {2, 3}), IsOkAndHolds(12));
  EXPECT_THAT(NumBytes(DType::kInt64, {}), IsOkAndHolds(8));
  EXPECT_THAT(NumBytes(DType::kInt64, {kHuge, 0}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("2^63")));
  EXPECT_THAT(NumBytes(DType::kBool, {kHuge, 0}), IsOkAndHolds(0));
}

TEST(ShapeTest, TextListsTheDimensions) {
  EXPECT_EQ(ShapeString({}), "[]");
  EXPECT_EQ(ShapeString({2, -3}), "[2, -3]");
}

struct BadShape {
  std::string name;
  std::vector<int64_t> shape;
  std::string message;
};

class BadShapeTest : public ::testing::TestWithParam<BadShape> {};

TEST_P(BadShapeTest, IsRefused) {
  for (const auto& size : {NumElements(GetParam().shape),
                           NumBytes(DType::kBool, GetParam().shape)}) {
    EXPECT_THAT(size, StatusIs(absl::StatusCode::kInvalidArgument,
                               HasSubstr(GetParam().message)));
    EXPECT_THAT(size, HasReason(kShapeMismatch));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, BadShapeTest,
    ::testing::ValuesIn(std::vector<BadShape>{
        {"Negative", {2, -1, 3}, "shape [2, -1, 3] has a negative dimension"},
        {"NegativeBesideZero", {0, -1}, "negative"},
        {"NegativeBesideHuge", {kHuge, kHuge, -1}, "negative"},
        {"TwoNegatives", {-2, -3}, "negative"},
        {"Overflow", {kHuge, 2}, "has more than 2^63"},
        {"WrapsToZero", {int64_t{1} << 32, int64_t{1} << 32}, "2^63"},
        // The product is 0, but products on the way to it are not.
        {"OverflowBesideZero", {kHuge, kHuge, 0}, "2^63"},
        {"ZeroBesideOverflow", {0, kHuge, kHuge}, "2^63"},
    }),
    [](const auto& info) { return info.param.name; });

TEST(ShapeErrorTest, BytesMayOverflowWhereElementsDoNot) {
  EXPECT_THAT(NumElements({kHuge}), IsOkAndHolds(kHuge));
  const auto bytes = NumBytes(DType::kInt32, {kHuge});
  EXPECT_THAT(bytes, StatusIs(absl::StatusCode::kInvalidArgument,
                              HasSubstr("of int32 has more than 2^63 bytes")));
  EXPECT_THAT(bytes, HasReason(kShapeMismatch));
}

TEST(ShapeErrorTest, UnknownDTypeHasNoBytes) {
  const auto bytes = NumBytes(static_cast<DType>(11), {1});
  EXPECT_THAT(bytes, StatusIs(absl::StatusCode::kInvalidArgument,
                              HasSubstr("dtype 11 is unknown")));
  EXPECT_THAT(bytes, HasReason(kBatchMalformed));
}

}  // namespace
}  // namespace cpfeed

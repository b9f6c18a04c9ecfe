#include "core/tensor/dtype.h"

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

struct Row {
  DType dtype;
  int number;
  std::string name;
  int64_t item_size;
  bool is_float;
  bool is_integer;
};

class DTypeTest : public ::testing::TestWithParam<Row> {};

TEST_P(DTypeTest, IsWhatTheTableSays) {
  const Row& row = GetParam();
  EXPECT_EQ(static_cast<int>(row.dtype), row.number);
  EXPECT_EQ(DTypeName(row.dtype), row.name);
  EXPECT_EQ(ItemSize(row.dtype), row.item_size);
  EXPECT_EQ(IsFloat(row.dtype), row.is_float);
  EXPECT_EQ(IsInteger(row.dtype), row.is_integer);
  EXPECT_THAT(ParseDType(row.name), IsOkAndHolds(row.dtype));
}

INSTANTIATE_TEST_SUITE_P(All, DTypeTest,
                         ::testing::ValuesIn(std::vector<Row>{
                             {DType::kBool, 1, "bool", 1, false, false},
                             {DType::kUint8, 2, "uint8", 1, false, true},
                             {DType::kInt8, 3, "int8", 1, false, true},
                             {DType::kInt16, 4, "int16", 2, false, true},
                             {DType::kInt32, 5, "int32", 4, false, true},
                             {DType::kInt64, 6, "int64", 8, false, true},
                             {DType::kFloat16, 7, "float16", 2, true, false},
                             {DType::kBfloat16, 8, "bfloat16", 2, true, false},
                             {DType::kFloat32, 9, "float32", 4, true, false},
                             {DType::kFloat64, 10, "float64", 8, true, false},
                         }),
                         [](const auto& info) { return info.param.name; });

TEST(DTypeNumberTest, WhatIsNoneHasNoSize) {
  for (const int number : {0, 11, 127, -1, -128}) {
    const auto dtype = static_cast<DType>(number);
    EXPECT_EQ(ItemSize(dtype), 0) << number;
    EXPECT_EQ(DTypeName(dtype), "invalid") << number;
    EXPECT_FALSE(IsFloat(dtype)) << number;
    EXPECT_FALSE(IsInteger(dtype)) << number;
  }
}

TEST(DTypeNumberTest, CppTypesHaveTheirDTypes) {
  EXPECT_EQ(DTypeOf<bool>(), DType::kBool);
  EXPECT_EQ(DTypeOf<uint8_t>(), DType::kUint8);
  EXPECT_EQ(DTypeOf<int32_t>(), DType::kInt32);
  EXPECT_EQ(DTypeOf<int64_t>(), DType::kInt64);
  EXPECT_EQ(DTypeOf<float>(), DType::kFloat32);
  EXPECT_EQ(DTypeOf<double>(), DType::kFloat64);
}

TEST(ParseDTypeTest, OtherNamesAreRefused) {
  for (const std::string name : {"invalid", "", "INT64", "int", "int64 "}) {
    EXPECT_THAT(ParseDType(name), StatusIs(absl::StatusCode::kInvalidArgument,
                                           HasSubstr("\"" + name + "\"")));
    EXPECT_THAT(ParseDType(name), HasReason(kBatchMalformed));
  }
}

}  // namespace
}  // namespace cpfeed

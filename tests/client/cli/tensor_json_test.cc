#include "client/cli/tensor_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/error.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(TensorFromJsonTest, IntegersAreInt64) {
  const auto tensor =
      TensorFromJson(Json::parse("[[1, -2, 3], [4, 5, 6]]"), "x");
  ASSERT_THAT(tensor, IsOk());
  EXPECT_EQ(tensor->dtype, DType::kInt64);
  EXPECT_THAT(tensor->shape, ElementsAre(2, 3));
  EXPECT_THAT(tensor->Values<int64_t>(), ElementsAre(1, -2, 3, 4, 5, 6));
}

TEST(TensorFromJsonTest, OneDecimalPointMakesFloat32OfAll) {
  const auto tensor = TensorFromJson(Json::parse("[1, 2.5, 3]"), "x");
  ASSERT_THAT(tensor, IsOk());
  EXPECT_THAT(tensor->Values<float>(), ElementsAre(1.0f, 2.5f, 3.0f));
}

TEST(TensorFromJsonTest, BoolsAreBool) {
  const auto tensor = TensorFromJson(Json::parse("[[true], [false]]"), "x");
  ASSERT_THAT(tensor, IsOk());
  EXPECT_EQ(tensor->dtype, DType::kBool);
  EXPECT_EQ(NestedJson(*tensor).dump(), "[[true],[false]]");
}

TEST(TensorFromJsonTest, EmptyListsHaveAShape) {
  const auto tensor = TensorFromJson(Json::parse("[[], []]"), "x");
  ASSERT_THAT(tensor, IsOk());
  EXPECT_THAT(tensor->shape, ElementsAre(2, 0));
}

TEST(TensorFromJsonTest, FlatFormKeepsTheDType) {
  for (const std::string form :
       {R"({"dt":"bool","sh":[2],"v":[0,1]})",
        R"({"dt":"u8","sh":[2],"v":[0,255]})",
        R"({"dt":"i8","sh":[1,2],"v":[-128,127]})",
        R"({"dt":"i16","sh":[2],"v":[-32768,1]})",
        R"({"dt":"i32","sh":[2,1],"v":[-2147483648,7]})",
        R"({"dt":"i64","sh":[],"v":[9223372036854775807]})",
        R"({"dt":"f32","sh":[2],"v":[0.5,2.0]})",
        R"({"dt":"f64","sh":[0],"v":[]})"}) {
    const auto tensor = TensorFromJson(Json::parse(form), "x");
    ASSERT_THAT(tensor, IsOk());
    EXPECT_EQ(FlatJson(*tensor).dump(), form);
  }
}

TEST(FlatJsonTest, SixteenBitFloatsAreWritten) {
  const Tensor half{.dtype = DType::kFloat16,
                    .shape = {1},
                    .bytes = Buffer::FromVector(std::vector<uint16_t>{0x3c00})};
  EXPECT_EQ(FlatJson(half).dump(), R"({"dt":"f16","sh":[1],"v":[1.0]})");
}

TEST(IsNestedTensorTest, TellsNumbersFromOtherLists) {
  EXPECT_TRUE(IsNestedTensor(Json::parse("[[1]]")));
  EXPECT_TRUE(IsNestedTensor(Json::parse("[]")));
  EXPECT_TRUE(IsNestedTensor(Json::parse("[true]")));
  EXPECT_FALSE(IsNestedTensor(Json::parse("1")));
  EXPECT_FALSE(IsNestedTensor(Json::parse(R"(["a"])")));
  EXPECT_FALSE(IsNestedTensor(Json::parse(R"([{"a": 1}])")));
}

struct BadJson {
  std::string name;
  std::string json;
  std::string reason;
  std::string message_part;
};

class TensorFromJsonErrorTest : public ::testing::TestWithParam<BadJson> {};

TEST_P(TensorFromJsonErrorTest, NamesThePath) {
  const auto tensor = TensorFromJson(Json::parse(GetParam().json), "ids");
  EXPECT_THAT(tensor, HasReason(GetParam().reason));
  EXPECT_THAT(tensor, StatusIs(absl::StatusCode::kInvalidArgument,
                               HasSubstr(GetParam().message_part)));
}

INSTANTIATE_TEST_SUITE_P(
    All, TensorFromJsonErrorTest,
    ::testing::ValuesIn(std::vector<BadJson>{
        {"Ragged", "[[1, 2, 3], [4, 5]]", kShapeMismatch,
         "ids[1] has 2 elements; must have 3"},
        {"RaggedInside", "[[[1], [2]], [[3], []]]", kShapeMismatch,
         "ids[1][1] has 0 elements; must have 1"},
        {"ListAmongNumbers", "[1, [2]]", kBatchMalformed,
         "ids[1] is a list; must be a number"},
        {"NumberAmongLists", "[[1], 2]", kBatchMalformed,
         "ids[1] is number; must be a list"},
        {"NumberAmongEmptyLists", "[[], 2]", kBatchMalformed,
         "ids[1] is number; must be a list"},
        {"Text", "[1, \"2\"]", kBatchMalformed, "ids[1] is string"},
        {"Null", "[[1, null]]", kBatchMalformed, "ids[0][1] is null"},
        {"BoolAmongNumbers", "[1, true]", kBatchMalformed,
         "ids[1] is a bool; must be a number"},
        {"NumberAmongBools", "[true, 0]", kBatchMalformed,
         "ids[1] is a number; must be a bool"},
        {"TooLarge", "[9223372036854775808]", kBatchMalformed,
         "ids[0] is above 2^63 - 1"},
        {"TooDeep", "[[[[[[[[[1]]]]]]]]]", kBatchMalformed, "deeper than 8"},
        {"Scalar", "5", kBatchMalformed, "ids is number; must be nested lists"},
        {"FlatUnknownDType", R"({"dt":"i65","sh":[1],"v":[1]})",
         kBatchMalformed, "ids has dt \"i65\""},
        {"FlatSizeWrong", R"({"dt":"i64","sh":[2,2],"v":[1]})", kShapeMismatch,
         "ids has 8 bytes"},
        {"FlatShapeNegative", R"({"dt":"i64","sh":[-1],"v":[1]})",
         kBatchMalformed, "no list of sizes"},
        {"FlatShapeOverflows",
         R"({"dt":"i64","sh":[4294967296,4294967296],"v":[]})", kShapeMismatch,
         "2^63"},
        {"FlatValueTooWide", R"({"dt":"i32","sh":[1],"v":[2147483648]})",
         kBatchMalformed, "ids.v[0] is 2147483648; must be int32"},
        {"FlatValueIsNoBit", R"({"dt":"bool","sh":[1],"v":[2]})",
         kBatchMalformed, "ids.v[0] is 2; must be bool"},
        {"FlatFraction", R"({"dt":"i64","sh":[1],"v":[1.5]})", kBatchMalformed,
         "ids.v[0] is 1.5"},
        {"FlatHalf", R"({"dt":"bf16","sh":[1],"v":[1]})", kBatchMalformed,
         "must be f32 or f64"},
    }),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace cpfeed

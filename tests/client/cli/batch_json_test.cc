#include "client/cli/batch_json.h"

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
using ::testing::IsEmpty;

TEST(BatchFromJsonTest, KeysBecomeFieldsAndExtras) {
  const auto result = BatchFromJson(Json::parse(R"({
      "step": 9, "note": "hi", "vision": [[[0.5, 1], [2, 3]]],
      "loss_mask": [[true, false]],
      "input_ids": [[1, 2]], "labels": [[2, -100]],
      "position_ids": [[[0, 1]], [[0, 1]], [[0, 1]]],
      "seq_lens": [[2]], "seq_lens_padded": null, "attention_mask": [[1, 1]],
      "padding_mask": [[false, false]]})"));
  ASSERT_THAT(result, IsOk());
  const PackedBatch& batch = result->batch;
  EXPECT_THAT(batch.input_ids.shape, ElementsAre(1, 2));
  EXPECT_THAT(batch.labels.Values<int64_t>(), ElementsAre(2, -100));
  EXPECT_THAT(batch.position_ids.shape, ElementsAre(3, 1, 2));
  EXPECT_THAT(batch.attention_mask.shape, ElementsAre(1, 2));
  EXPECT_EQ(batch.padding_mask.dtype, DType::kBool);
  ASSERT_TRUE(batch.seq_lens.has_value());
  EXPECT_FALSE(batch.seq_lens_padded.has_value());
  ASSERT_EQ(batch.extras.size(), 2);
  EXPECT_EQ(batch.extras[0].name, "vision");
  EXPECT_EQ(batch.extras[0].tensor.dtype, DType::kFloat32);
  EXPECT_EQ(batch.extras[0].sequence_axis, 1);
  EXPECT_EQ(batch.extras[1].tensor.dtype, DType::kBool);
  EXPECT_EQ(result->plain.dump(), R"({"step":9,"note":"hi"})");
}

TEST(BatchFromJsonTest, SequenceAxisIsFoundByTheSizesOfTheRows) {
  const auto result = BatchFromJson(Json::parse(R"({
      "grid": [[[1, 2, 3]], [[4, 5, 6]]],
      "input_ids": [[1, 2, 3]], "labels": [[2, 3, 4]]})"));
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->batch.extras[0].sequence_axis, 2);
}

TEST(BatchFromJsonTest, FlatFormMaySayTheSequenceAxis) {
  const auto result = BatchFromJson(Json::parse(R"({
      "input_ids": {"dt": "i32", "sh": [2, 2], "v": [1, 2, 3, 4]},
      "labels": [[1, 2], [3, 4]],
      "grid": {"dt": "i64", "sh": [2, 2, 2], "v": [1, 2, 3, 4, 5, 6, 7, 8],
               "sequence_axis": 2}})"));
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->batch.input_ids.dtype, DType::kInt32);
  EXPECT_EQ(result->batch.extras[0].sequence_axis, 2);
}

TEST(BatchFromJsonTest, LengthsMayBeRaggedOrRectangular) {
  const auto result = BatchFromJson(Json::parse(R"({
      "seq_lens": [[3, 2], [], [5]],
      "seq_lens_padded": {"dt": "i64", "sh": [2, 2], "v": [4, 4, 8, -1000]}})"));
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(result->batch.seq_lens->values, ElementsAre(3, 2, 5));
  EXPECT_THAT(result->batch.seq_lens->row_splits, ElementsAre(0, 2, 2, 3));
  EXPECT_THAT(result->batch.seq_lens_padded->row_splits, ElementsAre(0, 2, 4));
}

TEST(BatchFromJsonTest, EmptyObjectIsAnEmptyBatch) {
  const auto result = BatchFromJson(Json::object());
  ASSERT_THAT(result, IsOk());
  EXPECT_TRUE(result->batch.input_ids.empty());
  EXPECT_THAT(result->batch.extras, IsEmpty());
}

struct BadJson {
  std::string name;
  std::string json;
  std::string reason;
  std::string message_part;
};

class BatchFromJsonErrorTest : public ::testing::TestWithParam<BadJson> {};

TEST_P(BatchFromJsonErrorTest, NamesThePath) {
  const auto batch = BatchFromJson(Json::parse(GetParam().json));
  EXPECT_THAT(batch, HasReason(GetParam().reason));
  EXPECT_THAT(batch, StatusIs(absl::StatusCode::kInvalidArgument,
                              HasSubstr(GetParam().message_part)));
}

INSTANTIATE_TEST_SUITE_P(
    All, BatchFromJsonErrorTest,
    ::testing::ValuesIn(std::vector<BadJson>{
        {"NoObject", "[1]", kBatchMalformed, "input is array"},
        {"RaggedIds", R"({"input_ids": [[1, 2], [3]]})", kShapeMismatch,
         "input_ids[1] has 1 elements; must have 2"},
        {"TextLabels", R"({"labels": "none"})", kBatchMalformed,
         "labels is string"},
        {"ScalarLengths", R"({"seq_lens": 4})", kBatchMalformed,
         "seq_lens is number; must be a list of lists"},
        {"FlatLengths", R"({"seq_lens": [[4], 4]})", kBatchMalformed,
         "seq_lens[1] is number; must be a list of lengths"},
        {"FractionLength", R"({"seq_lens": [[4, 1.5]]})", kBatchMalformed,
         "seq_lens[0][1] is 1.5; must be an integer"},
        {"BoolLength", R"({"seq_lens": [[true]]})", kBatchMalformed,
         "seq_lens[0][0] is true"},
        {"LengthsOfOneAxis",
         R"({"seq_lens": {"dt": "i64", "sh": [1], "v": [4]}})", kShapeMismatch,
         "seq_lens has shape [1]; must be [B, P]"},
        {"FloatLengths",
         R"({"seq_lens": {"dt": "f32", "sh": [1, 1], "v": [4]}})",
         kBatchMalformed, "seq_lens: dtype is float32"},
        {"OutputKey", R"({"index": [[1]]})", kBatchMalformed,
         "index is a key of the output"},
        {"AxisIsNoNumber",
         R"({"x": {"dt": "i64", "sh": [1], "v": [4], "sequence_axis": "2"}})",
         kBatchMalformed, "x has sequence_axis \"2\""},
    }),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace cpfeed

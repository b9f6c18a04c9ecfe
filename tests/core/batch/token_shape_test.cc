#include "core/batch/token_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "tests/testing/packed_batches.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::CountingBatch;
using ::cpfeed::testing::CountingTensor;
using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::StatusIs;
using ::testing::HasSubstr;

Tensor Floats(Shape shape) {
  const int64_t count = *NumElements(shape);
  return Tensor::FromVector(std::move(shape), std::vector<float>(count, 0.5f));
}

TEST(CheckTokenShapesTest, EmbeddingsHaveTheTokenAxesInFront) {
  PackedBatch batch = CountingBatch(2, 3);
  batch.input_ids = Floats({2, 3, 5});
  const auto shape = CheckTokenShapes(batch);
  ASSERT_THAT(shape, IsOk());
  EXPECT_EQ(shape->num_rows, 2);
  EXPECT_EQ(shape->row_width, 3);
  EXPECT_EQ(shape->num_tokens(), 6);
}

TEST(CheckTokenShapesTest, ExtrasMayHaveAxesOnBothSides) {
  PackedBatch batch = CountingBatch(2, 3);
  batch.position_ids = CountingTensor({4, 2, 3});
  batch.extras.push_back({.name = "loss_mask", .tensor = Floats({2, 3})});
  batch.extras.push_back(
      {.name = "vision", .tensor = Floats({7, 2, 3, 5}), .sequence_axis = 2});
  EXPECT_THAT(CheckTokenShapes(batch), IsOk());
}

struct BadShape {
  std::string name;
  std::function<void(PackedBatch&)> spoil;
  std::string reason;
  std::string message_part;
};

class CheckTokenShapesErrorTest : public ::testing::TestWithParam<BadShape> {};

TEST_P(CheckTokenShapesErrorTest, IsRefused) {
  PackedBatch batch = CountingBatch(2, 4);
  GetParam().spoil(batch);
  const auto shape = CheckTokenShapes(batch);
  EXPECT_THAT(shape, HasReason(GetParam().reason));
  EXPECT_THAT(shape, StatusIs(absl::StatusCode::kInvalidArgument,
                              HasSubstr(GetParam().message_part)));
}

// A tensor whose shape says more than its bytes hold.
Tensor Claims(Shape shape, DType dtype = DType::kInt64) {
  return Tensor{.dtype = dtype, .shape = std::move(shape), .bytes = {}};
}

INSTANTIATE_TEST_SUITE_P(
    All, CheckTokenShapesErrorTest,
    ::testing::ValuesIn(std::vector<BadShape>{
        {"NoInputIds", [](PackedBatch& b) { b.input_ids = Tensor(); },
         kBatchMalformed, "input_ids are missing"},
        {"NoLabels", [](PackedBatch& b) { b.labels = Tensor(); },
         kBatchMalformed, "labels are missing"},
        {"NoRows",
         [](PackedBatch& b) {
           b.input_ids = Claims({0, 4});
         },
         kShapeMismatch, "input_ids has shape [0, 4]"},
        {"NoWidth",
         [](PackedBatch& b) {
           b.input_ids = Claims({2, 0});
         },
         kShapeMismatch, "input_ids has shape [2, 0]"},
        {"HugeWithoutWidth",
         [](PackedBatch& b) {
           b.input_ids = Claims({int64_t{1} << 62, 0});
         },
         kShapeMismatch, "input_ids"},
        {"TooManyTokens",
         [](PackedBatch& b) {
           static const char byte = 0;
           b.input_ids = Claims({2, int64_t{1} << 30}, DType::kInt32);
           b.input_ids.bytes = Buffer::Wrap(nullptr, &byte, int64_t{1} << 33);
         },
         kBatchTooLarge, "2147483648 tokens; must be fewer than 2^31"},
        {"SizeOverflows",
         [](PackedBatch& b) {
           b.input_ids = Claims({int64_t{1} << 40, int64_t{1} << 40});
         },
         kShapeMismatch, "more than 2^63"},
        {"BytesAreMissing",
         [](PackedBatch& b) {
           b.labels = Claims({2, 4});
         },
         kShapeMismatch, "labels has 0 bytes"},
        {"NegativeDimension",
         [](PackedBatch& b) {
           b.labels = Claims({-2, 4});
         },
         kShapeMismatch, "labels"},
        {"UnknownDType",
         [](PackedBatch& b) { b.labels.dtype = static_cast<DType>(99); },
         kBatchMalformed, "dtype 99 is unknown"},
        {"IdsOfOneAxis",
         [](PackedBatch& b) { b.input_ids = CountingTensor({8}); },
         kShapeMismatch, "must be [B, S]"},
        {"IntegerIdsOfThreeAxes",
         [](PackedBatch& b) {
           b.input_ids = CountingTensor({2, 4, 1});
         },
         kShapeMismatch, "must be [B, S]"},
        {"FloatIdsOfTwoAxes",
         [](PackedBatch& b) {
           b.input_ids = Floats({2, 4});
         },
         kShapeMismatch, "must be [B, S, H]"},
        {"EmptyEmbeddings",
         [](PackedBatch& b) {
           b.input_ids = Floats({2, 4, 0});
         },
         kShapeMismatch, "every dimension must be at least 1"},
        {"BoolIds",
         [](PackedBatch& b) {
           b.input_ids.dtype = DType::kBool;
           b.input_ids.bytes = b.input_ids.bytes.Slice(0, 8);
         },
         kBatchMalformed, "input_ids has dtype bool"},
        {"FloatLabels",
         [](PackedBatch& b) {
           b.labels = Floats({2, 4});
         },
         kBatchMalformed, "labels has dtype float32"},
        {"LabelsOfAnotherWidth",
         [](PackedBatch& b) {
           b.labels = CountingTensor({2, 5});
         },
         kShapeMismatch, "labels has shape [2, 5]; must be [2, 4]"},
        {"LabelsTransposed",
         [](PackedBatch& b) {
           b.labels = CountingTensor({4, 2});
         },
         kShapeMismatch, "labels has shape [4, 2]; must be [2, 4]"},
        {"PositionsOfAnotherWidth",
         [](PackedBatch& b) {
           b.position_ids = CountingTensor({3, 2, 5});
         },
         kShapeMismatch, "position_ids has shape [3, 2, 5]; must be [2, 4]"},
        {"PositionsOfOneRow",
         [](PackedBatch& b) {
           b.position_ids = CountingTensor({1, 4});
         },
         kShapeMismatch, "position_ids has shape [1, 4]"},
        {"FloatPositions",
         [](PackedBatch& b) {
           b.position_ids = Floats({2, 4});
         },
         kBatchMalformed, "position_ids has dtype float32"},
        {"MaskOfAnotherWidth",
         [](PackedBatch& b) {
           b.attention_mask = CountingTensor({2, 3});
         },
         kShapeMismatch, "attention_mask has shape [2, 3]"},
        {"DenseMaskOfAnotherWidth",
         [](PackedBatch& b) {
           b.attention_mask = CountingTensor({2, 4, 3});
         },
         kShapeMismatch, "B = 2 and S = 4"},
        {"PaddingMaskOfAnotherWidth",
         [](PackedBatch& b) {
           b.padding_mask = CountingTensor({2, 3});
         },
         kShapeMismatch, "padding_mask has shape [2, 3]"},
        {"ExtraWithoutName",
         [](PackedBatch& b) {
           b.extras.push_back({.name = "", .tensor = Floats({2, 4})});
         },
         kBatchMalformed, "no name"},
        {"ExtraNameReserved",
         [](PackedBatch& b) {
           b.extras.push_back({.name = "labels", .tensor = Floats({2, 4})});
         },
         kBatchMalformed, "\"labels\", which is reserved"},
        {"ExtraNameTwice",
         [](PackedBatch& b) {
           b.extras.push_back({.name = "x", .tensor = Floats({2, 4})});
           b.extras.push_back({.name = "x", .tensor = Floats({2, 4})});
         },
         kBatchMalformed, "two extra tensors have the name \"x\""},
        {"ExtraAxisZero",
         [](PackedBatch& b) {
           b.extras.push_back(
               {.name = "x", .tensor = Floats({2, 4}), .sequence_axis = 0});
         },
         kShapeMismatch, "x has sequence axis 0; must be in [1, 2)"},
        {"ExtraAxisBeyondRank",
         [](PackedBatch& b) {
           b.extras.push_back(
               {.name = "x", .tensor = Floats({2, 4}), .sequence_axis = 2});
         },
         kShapeMismatch, "x has sequence axis 2; must be in [1, 2)"},
        {"ExtraOfAnotherWidth",
         [](PackedBatch& b) {
           b.extras.push_back(
               {.name = "x", .tensor = Floats({7, 2, 5}), .sequence_axis = 2});
         },
         kShapeMismatch, "x has shape [7, 2, 5]; must be [2, 4]"},
        {"EmptyExtra",
         [](PackedBatch& b) {
           b.extras.push_back({.name = "x", .tensor = Tensor()});
         },
         kBatchMalformed, "dtype 0 is unknown"},
    }),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace cpfeed

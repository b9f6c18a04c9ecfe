#include "core/thd/parity_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/base/error.h"
#include "core/batch/parity.h"
#include "tests/testing/packed_batches.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::CountingTensor;
using ::cpfeed::testing::Fragmented;
using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::testing::ElementsAre;

TEST(CastToInt64Test, FloatsAreCutTowardsZero) {
  const Tensor floats = Tensor::FromVector<float>({4}, {1.9f, -1.9f, 0, 7});
  EXPECT_THAT(CastToInt64(floats).Values<int64_t>(), ElementsAre(1, -1, 0, 7));
}

TEST(CastToInt64Test, WhatDoesNotFitIsTheLeastInteger) {
  const Tensor doubles = Tensor::FromVector<double>(
      {4}, {NAN, 1e30, -1e30, -9223372036854775808.0});
  const int64_t least = std::numeric_limits<int64_t>::min();
  EXPECT_THAT(CastToInt64(doubles).Values<int64_t>(),
              ElementsAre(least, least, least, least));
}

TEST(CastToInt64Test, SixteenBitFloatsAreNumbersToo) {
  Tensor tensor{.dtype = DType::kFloat16,
                .shape = {2},
                .bytes = Buffer::FromVector(std::vector<uint16_t>{0x4200,  // 3
                                                                  0xc500})};
  EXPECT_THAT(CastToInt64(tensor).Values<int64_t>(), ElementsAre(3, -5));
  tensor.dtype = DType::kBfloat16;
  EXPECT_THAT(*EqualTo(tensor, 32).ToInt64(), ElementsAre(1, 0));
}

TEST(EqualToTest, KeepsTheShape) {
  const Tensor mask = EqualTo(CountingTensor({2, 3}), 4);
  EXPECT_EQ(mask.dtype, DType::kBool);
  EXPECT_THAT(mask.shape, ElementsAre(2, 3));
  EXPECT_THAT(*mask.ToInt64(), ElementsAre(0, 0, 0, 0, 1, 0));
}

TEST(FlattenTokensTest, LastAxisOfOneIsDropped) {
  EXPECT_THAT(FlattenTokens(CountingTensor({2, 3}), 6)->shape, ElementsAre(6));
  EXPECT_THAT(FlattenTokens(CountingTensor({2, 3, 1}), 6)->shape,
              ElementsAre(6));
  EXPECT_THAT(FlattenTokens(CountingTensor({2, 3, 4}), 6)->shape,
              ElementsAre(6, 4));
  EXPECT_THAT(FlattenTokens(CountingTensor({2, 3}), 4),
              HasReason("RuntimeError"));
  EXPECT_THAT(FlattenTokens(CountingTensor({0, 3}), 0),
              HasReason("RuntimeError"));
}

TEST(SliceAxis0Test, EndsWhereTheTensorEnds) {
  const auto slice = SliceAxis0(CountingTensor({3, 2}), 2, 4);
  ASSERT_THAT(slice, IsOk());
  EXPECT_THAT(slice->shape, ElementsAre(1, 2));
  EXPECT_THAT(*slice->ToInt64(), ElementsAre(4, 5));
  EXPECT_THAT(SliceAxis0(CountingTensor({3, 2}), 5, 6)->shape,
              ElementsAre(0, 2));
  EXPECT_THAT(SliceAxis0(CountingTensor({}), 0, 1), HasReason("IndexError"));
}

TEST(StackTest, ShapesMustBeEqual) {
  const auto stacked = Stack({CountingTensor({2}), CountingTensor({2}, 5)});
  ASSERT_THAT(stacked, IsOk());
  EXPECT_THAT(stacked->shape, ElementsAre(2, 2));
  EXPECT_THAT(*stacked->ToInt64(), ElementsAre(0, 1, 5, 6));
  EXPECT_THAT(Stack({CountingTensor({2}), CountingTensor({3})}),
              HasReason("RuntimeError"));
}

TEST(TakeRowsTest, RowsComeInOrderOfTheIndex) {
  const Tensor tensor = Fragmented(CountingTensor({3, 2}), 11);
  const auto taken = TakeRows(tensor, {2, 0});
  ASSERT_THAT(taken, IsOk());
  EXPECT_THAT(taken->shape, ElementsAre(2, 2));
  EXPECT_THAT(*taken->ToInt64(), ElementsAre(4, 5, 0, 1));
  EXPECT_THAT(TakeRows(tensor, {3}), HasReason("IndexError"));
  EXPECT_THAT(TakeRows(tensor, {-1}), HasReason("IndexError"));
}

TEST(IsPythonErrorTest, TellsExceptionsFromOurReasons) {
  EXPECT_TRUE(IsPythonError(PythonError("KeyError", "labels")));
  EXPECT_FALSE(IsPythonError(InvalidArgument(kBadOption, "")));
  EXPECT_FALSE(IsPythonError(absl::OkStatus()));
}

}  // namespace
}  // namespace cpfeed

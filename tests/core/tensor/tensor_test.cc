#include "core/tensor/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "tests/testing/random_cut.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::IsOkAndHolds;
using ::cpfeed::testing::RandomlyCut;
using ::cpfeed::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <class T>
Tensor TensorOf(DType dtype, std::vector<T> values) {
  const auto count = static_cast<int64_t>(values.size());
  return {.dtype = dtype,
          .shape = {count},
          .bytes = Buffer::FromVector(std::move(values))};
}

TEST(TensorTest, DefaultIsEmpty) {
  EXPECT_TRUE(Tensor().empty());
  EXPECT_FALSE(Tensor::FromVector<int32_t>({0}, {}).empty());
}

TEST(TensorTest, ValuesAreThoseGiven) {
  const Tensor tensor = Tensor::FromVector<int32_t>({2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(tensor.dtype, DType::kInt32);
  EXPECT_THAT(tensor.Values<int32_t>(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(Tensor::FromVector<float>({0}, {}).Values<float>(), IsEmpty());
  EXPECT_THAT(TensorOf<uint8_t>(DType::kBool, {1, 0}).Values<bool>(),
              ElementsAre(true, false));
}

TEST(TensorDeathTest, ValuesOfAnotherTypeAreABrokenInvariant) {
  const Tensor tensor = Tensor::FromVector<int32_t>({1}, {1});
  EXPECT_DEATH(tensor.Values<int64_t>(), "broken invariant");
}

TEST(TensorTest, IntegersWidenWithTheirSign) {
  EXPECT_THAT(TensorOf<uint8_t>(DType::kBool, {0, 1}).ToInt64(),
              IsOkAndHolds(ElementsAre(0, 1)));
  EXPECT_THAT(TensorOf<uint8_t>(DType::kUint8, {0, 127, 128, 255}).ToInt64(),
              IsOkAndHolds(ElementsAre(0, 127, 128, 255)));
  EXPECT_THAT(TensorOf<int8_t>(DType::kInt8, {-128, -1, 127}).ToInt64(),
              IsOkAndHolds(ElementsAre(-128, -1, 127)));
  EXPECT_THAT(TensorOf<int16_t>(DType::kInt16, {INT16_MIN, 300}).ToInt64(),
              IsOkAndHolds(ElementsAre(INT16_MIN, 300)));
  EXPECT_THAT(TensorOf<int32_t>(DType::kInt32, {INT32_MIN, -1000}).ToInt64(),
              IsOkAndHolds(ElementsAre(INT32_MIN, -1000)));
  EXPECT_THAT(TensorOf<int64_t>(DType::kInt64, {INT64_MIN, 1}).ToInt64(),
              IsOkAndHolds(ElementsAre(INT64_MIN, 1)));
  EXPECT_THAT(TensorOf<int64_t>(DType::kInt64, {}).ToInt64(),
              IsOkAndHolds(IsEmpty()));
}

TEST(TensorTest, FloatsAreNotCastToIntegers) {
  for (const DType dtype : {DType::kFloat16, DType::kBfloat16, DType::kFloat32,
                            DType::kFloat64, DType::kInvalid}) {
    const auto values = TensorOf<double>(dtype, {1}).ToInt64();
    EXPECT_THAT(values, StatusIs(absl::StatusCode::kInvalidArgument,
                                 HasSubstr("must be an integer")));
    EXPECT_THAT(values, HasReason(kBatchMalformed));
  }
}

TEST(TensorTest, CutBytesWidenTheSame) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 50; ++round) {
    std::vector<int64_t> values(random() % 40);
    for (int64_t& value : values) value = static_cast<int64_t>(random());
    Tensor tensor = TensorOf(DType::kInt64, values);
    tensor.bytes = RandomlyCut(tensor.bytes, 13, random);
    EXPECT_THAT(tensor.ToInt64(), IsOkAndHolds(values));
  }
}

TEST(ValidateTensorTest, BytesMustBeThoseOfDTypeAndShape) {
  Tensor tensor = Tensor::FromVector<int32_t>({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(ValidateTensor("x", tensor), IsOk());
  tensor.shape = {2, 2};
  const absl::Status status = ValidateTensor("x", tensor);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                               AllOf(HasSubstr("x has 24 bytes"),
                                     HasSubstr("[2, 2] of int32 needs 16"))));
  EXPECT_THAT(status, HasReason(kShapeMismatch));
}

TEST(ValidateTensorTest, NonsenseIsRefusedByName) {
  EXPECT_THAT(
      ValidateTensor("x", Tensor{.dtype = DType::kInt32, .shape = {-1}}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("x: shape [-1]")));
  EXPECT_THAT(ValidateTensor("x", Tensor()), HasReason(kBatchMalformed));
}

}  // namespace
}  // namespace cpfeed

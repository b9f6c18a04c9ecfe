#include "core/wire/tensor_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/tensor/dtype.h"
#include "tests/testing/random_batches.h"
#include "tests/testing/random_cut.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::IsOkAndHolds;
using ::cpfeed::testing::RandomlyCut;
using ::cpfeed::testing::RandomTensor;
using ::cpfeed::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr DType kAllDTypes[] = {
    DType::kBool,    DType::kUint8,  DType::kInt8,    DType::kInt16,
    DType::kInt32,   DType::kInt64,  DType::kFloat16, DType::kBfloat16,
    DType::kFloat32, DType::kFloat64};

std::string StringOf(const Buffer& buffer) {
  std::string bytes(static_cast<size_t>(buffer.size()), '\0');
  buffer.CopyTo(bytes.data());
  return bytes;
}

v1::TensorSpec& AddSpec(TensorSpecs& specs, const std::string& name, int dtype,
                        const std::vector<int64_t>& shape) {
  v1::TensorSpec& spec = *specs.Add();
  spec.set_name(name);
  spec.set_dtype(static_cast<v1::DType>(dtype));
  spec.mutable_shape()->Add(shape.begin(), shape.end());
  return spec;
}

TEST(TensorCodecTest, DTypesHaveTheNumbersOfTheProto) {
  EXPECT_EQ(v1::DType_MAX, 10);
  for (const DType dtype : kAllDTypes) {
    std::string name = v1::DType_Name(static_cast<v1::DType>(dtype));
    for (char& c : name) c = static_cast<char>(std::tolower(c));
    EXPECT_EQ(name, absl::StrCat("dtype_", DTypeName(dtype)));
  }
}

// Property: what is encoded is decoded, wherever the payload is cut.
TEST(TensorCodecTest, DecodingUndoesEncoding) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 100; ++round) {
    TensorSpecs specs;
    Buffer payload;
    std::vector<Tensor> tensors;
    const int count = static_cast<int>(random() % 8);
    for (int i = 0; i < count; ++i) {
      Shape shape;
      for (uint64_t d = random() % 4; d > 0; --d) shape.push_back(random() % 5);
      tensors.push_back(RandomTensor(kAllDTypes[random() % 10], shape, random));
      EncodeTensor(absl::StrCat("t", i), tensors.back(), i, specs, payload);
    }
    ASSERT_THAT(CheckTensorSpecs(specs), IsOkAndHolds(payload.size()));
    const auto decoded = DecodeTensors(specs, RandomlyCut(payload, 30, random));
    ASSERT_THAT(decoded, IsOkAndHolds(SizeIs(count)));
    for (int i = 0; i < count; ++i) {
      const NamedTensor& named = (*decoded)[i];
      EXPECT_EQ(named.name, absl::StrCat("t", i));
      EXPECT_EQ(named.tensor.dtype, tensors[i].dtype);
      EXPECT_EQ(named.tensor.shape, tensors[i].shape);
      EXPECT_EQ(StringOf(named.tensor.bytes), StringOf(tensors[i].bytes));
      EXPECT_EQ(specs.Get(i).sequence_axis(), i);
    }
  }
}

TEST(TensorCodecTest, BytesAreShared) {
  std::mt19937_64 random(2);
  const Tensor first = RandomTensor(DType::kInt32, {5}, random);
  const Tensor second = RandomTensor(DType::kInt64, {2}, random);
  TensorSpecs specs;
  Buffer payload;
  EncodeTensor("first", first, 0, specs, payload);
  EncodeTensor("second", second, 0, specs, payload);
  EXPECT_EQ(payload.fragments()[0].data, first.bytes.data());
  const auto decoded = DecodeTensors(specs, payload);
  ASSERT_THAT(decoded, IsOk());
  EXPECT_EQ((*decoded)[1].tensor.bytes.data(), second.bytes.data());
}

struct BadSpecs {
  std::string name;
  std::function<void(TensorSpecs&)> add;
  std::string reason;
  std::string message;
};

class BadSpecsTest : public ::testing::TestWithParam<BadSpecs> {};

TEST_P(BadSpecsTest, AreRefused) {
  TensorSpecs specs;
  AddSpec(specs, "fine", 6, {2});
  GetParam().add(specs);
  const auto bytes = CheckTensorSpecs(specs);
  EXPECT_THAT(bytes, StatusIs(absl::StatusCode::kInvalidArgument,
                              HasSubstr(GetParam().message)));
  EXPECT_THAT(bytes, HasReason(GetParam().reason));
}

constexpr int64_t kHuge = int64_t{1} << 62;

INSTANTIATE_TEST_SUITE_P(
    All, BadSpecsTest,
    ::testing::ValuesIn(std::vector<BadSpecs>{
        {"NoName", [](auto& s) { AddSpec(s, "", 6, {1}); }, kBatchMalformed,
         "name has 0 bytes; must be 1 to 128"},
        {"LongName", [](auto& s) { AddSpec(s, std::string(129, 'n'), 6, {1}); },
         kBatchMalformed, "name has 129 bytes"},
        {"NameTwice", [](auto& s) { AddSpec(s, "fine", 5, {1}); },
         kBatchMalformed, "tensor fine is given twice"},
        {"NoDType", [](auto& s) { AddSpec(s, "x", 0, {1}); }, kBatchMalformed,
         "tensor x: dtype 0 is unknown"},
        {"DTypeOfALaterVersion", [](auto& s) { AddSpec(s, "x", 11, {1}); },
         kBatchMalformed, "tensor x: dtype 0 is unknown"},
        // The low byte would be int64.
        {"DTypeThatWraps", [](auto& s) { AddSpec(s, "x", 256 + 6, {1}); },
         kBatchMalformed, "is unknown"},
        {"NegativeDType", [](auto& s) { AddSpec(s, "x", -1, {1}); },
         kBatchMalformed, "is unknown"},
        {"NegativeShape",
         [](auto& s) {
           AddSpec(s, "x", 6, {4, -1});
         },
         kShapeMismatch, "tensor x: shape [4, -1] has a negative dimension"},
        {"Overflow",
         [](auto& s) {
           AddSpec(s, "x", 1, {kHuge, 4});
         },
         kShapeMismatch, "tensor x: shape [4611686018427387904, 4] of bool"},
        {"OverflowOfBytes", [](auto& s) { AddSpec(s, "x", 6, {kHuge}); },
         kShapeMismatch, "2^63 bytes"},
        {"OverflowBesideZero",
         [](auto& s) {
           AddSpec(s, "x", 1, {0, kHuge, 4});
         },
         kShapeMismatch, "2^63"},
        {"OverflowOfTheSum",
         [](auto& s) {
           AddSpec(s, "x", 1, {INT64_MAX});
           AddSpec(s, "y", 1, {1});
         },
         kBatchTooLarge, "tensors have more than 2^63 bytes"},
        {"ManyDimensions",
         [](auto& s) { AddSpec(s, "x", 6, std::vector<int64_t>(9, 1)); },
         kShapeMismatch, "has 9 dimensions; must be at most 8"},
        {"ManyTensors",
         [](auto& s) {
           for (int i = 0; i < 64; ++i) AddSpec(s, absl::StrCat(i), 6, {1});
         },
         kBatchMalformed, "65 tensors; must be at most 64"},
    }),
    [](const auto& info) { return info.param.name; });

TEST(DecodeTensorsTest, PayloadMustHaveTheSizeOfTheTensors) {
  TensorSpecs specs;
  AddSpec(specs, "a", 5, {2});
  AddSpec(specs, "b", 6, {1});
  const std::string bytes(17, 'x');
  const auto decode = [&](int64_t size) {
    return DecodeTensors(specs, Buffer::CopyOf(bytes.data(), size));
  };
  EXPECT_THAT(decode(16), IsOk());
  EXPECT_THAT(decode(15), StatusIs(absl::StatusCode::kInvalidArgument,
                                   HasSubstr("payload has 15 bytes; tensor b "
                                             "ends at 16")));
  EXPECT_THAT(decode(17), StatusIs(absl::StatusCode::kInvalidArgument,
                                   HasSubstr("payload has 17 bytes; its "
                                             "tensors have 16")));
  EXPECT_THAT(decode(17), HasReason(kShapeMismatch));
}

TEST(DecodeTensorsTest, AnyChangeOfAByteIsDataLoss) {
  std::mt19937_64 random(3);
  TensorSpecs specs;
  Buffer payload;
  EncodeTensor("a", RandomTensor(DType::kInt32, {3}, random), 0, specs,
               payload);
  EncodeTensor("b", RandomTensor(DType::kBool, {5}, random), 0, specs, payload);
  std::string bytes = StringOf(payload);
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    const auto decoded =
        DecodeTensors(specs, Buffer::CopyOf(changed.data(), payload.size()));
    EXPECT_THAT(decoded,
                StatusIs(absl::StatusCode::kDataLoss,
                         AllOf(HasSubstr(at < 12 ? "tensor a" : "tensor b"),
                               HasSubstr(absl::StrCat(absl::Hex(
                                   specs.Get(at < 12 ? 0 : 1).checksum()))))));
    EXPECT_THAT(decoded, HasReason(kChecksumMismatch));
  }
}

TEST(DecodeTensorsTest, NoChecksumMeansNone) {
  TensorSpecs specs;
  AddSpec(specs, "a", 6, {1});
  EXPECT_THAT(DecodeTensors(specs, Buffer::CopyOf("12345678", 8)), IsOk());
}

// As bytes, and as numbers where the dtype has them.
class TensorProtoTest : public ::testing::TestWithParam<DType> {};

TEST_P(TensorProtoTest, RoundTripsBothWays) {
  std::mt19937_64 random(4);
  for (const bool as_numbers : {false, true}) {
    for (const int64_t count : {0, 1, 7}) {
      const NamedTensor named = {"x",
                                 RandomTensor(GetParam(), {count, 1}, random)};
      const v1::Tensor proto = TensorToProto(named, as_numbers);
      const auto back = TensorFromProto(proto);
      ASSERT_THAT(back, IsOk());
      EXPECT_EQ(back->name, "x");
      EXPECT_EQ(back->tensor.dtype, GetParam());
      EXPECT_EQ(back->tensor.shape, named.tensor.shape);
      if (IsFloat(GetParam()) && as_numbers) continue;  // NaNs may differ.
      EXPECT_EQ(StringOf(back->tensor.bytes), StringOf(named.tensor.bytes));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, TensorProtoTest, ::testing::ValuesIn(kAllDTypes),
                         [](const auto& info) {
                           return std::string(DTypeName(info.param));
                         });

TEST(TensorNumbersTest, NumbersTakeThePlaceOfBytes) {
  const v1::Tensor integers = TensorToProto(
      {"x", Tensor::FromVector<int32_t>({2}, {-5, 7})}, /*as_numbers=*/true);
  EXPECT_THAT(integers.integers(), ElementsAre(-5, 7));
  EXPECT_EQ(integers.payload(), "");
  const v1::Tensor floats = TensorToProto(
      {"x", Tensor::FromVector<float>({2}, {0.5f, INFINITY})}, true);
  EXPECT_THAT(floats.floats(), ElementsAre(0.5, INFINITY));
  EXPECT_EQ(TensorFromProto(floats)->tensor.Values<float>()[1], INFINITY);
}

TEST(TensorNumbersTest, FloatsAreRoundedToTheirDType) {
  v1::Tensor proto;
  proto.mutable_spec()->set_name("x");
  proto.mutable_spec()->set_dtype(v1::DTYPE_FLOAT32);
  proto.mutable_spec()->add_shape(2);
  proto.add_floats(0.1);
  proto.add_floats(std::numeric_limits<double>::quiet_NaN());
  const auto tensor = TensorFromProto(proto);
  ASSERT_THAT(tensor, IsOk());
  EXPECT_EQ(tensor->tensor.Values<float>()[0], 0.1f);
  EXPECT_TRUE(std::isnan(tensor->tensor.Values<float>()[1]));
}

struct BadNumbers {
  std::string name;
  v1::DType dtype;
  std::vector<int64_t> integers;
  std::vector<double> floats;
  std::string payload;
  std::string message;
};

class BadNumbersTest : public ::testing::TestWithParam<BadNumbers> {};

TEST_P(BadNumbersTest, AreRefused) {
  const BadNumbers& bad = GetParam();
  v1::Tensor proto;
  proto.mutable_spec()->set_name("x");
  proto.mutable_spec()->set_dtype(bad.dtype);
  proto.mutable_spec()->add_shape(2);
  proto.mutable_integers()->Add(bad.integers.begin(), bad.integers.end());
  proto.mutable_floats()->Add(bad.floats.begin(), bad.floats.end());
  proto.set_payload(bad.payload);
  EXPECT_THAT(
      TensorFromProto(proto),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(bad.message)));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadNumbersTest,
    ::testing::ValuesIn(std::vector<BadNumbers>{
        {"BoolOfTwo",
         v1::DTYPE_BOOL,
         {1, 2},
         {},
         "",
         "tensor x: number 1 is 2; must be 0 to 1, as its dtype is bool"},
        {"NegativeByte",
         v1::DTYPE_UINT8,
         {-1, 2},
         {},
         "",
         "number 0 is -1; must be 0 to 255"},
        {"WideInt8",
         v1::DTYPE_INT8,
         {-128, 128},
         {},
         "",
         "number 1 is 128; must be -128 to 127"},
        {"WideInt16",
         v1::DTYPE_INT16,
         {-32769, 0},
         {},
         "",
         "number 0 is -32769"},
        {"WideInt32",
         v1::DTYPE_INT32,
         {0, int64_t{1} << 31},
         {},
         "",
         "number 1 is 2147483648; must be -2147483648 to 2147483647"},
        {"WideFloat32",
         v1::DTYPE_FLOAT32,
         {},
         {1, -1e39},
         "",
         "number 1 is -1e+39"},
        {"Float16",
         v1::DTYPE_FLOAT16,
         {},
         {1, 2},
         "",
         "numbers are not taken for dtype float16; send bytes"},
        {"FloatsForIntegers",
         v1::DTYPE_INT64,
         {},
         {1, 2},
         "",
         "0 integers, 2 floats and 0 bytes"},
        {"IntegersForFloats",
         v1::DTYPE_FLOAT64,
         {1, 2},
         {},
         "",
         "2 integers, 0 floats and 0 bytes"},
        {"NumbersBesideBytes",
         v1::DTYPE_INT8,
         {1, 2},
         {},
         "ab",
         "2 integers, 0 floats and 2 bytes"},
        {"TooFewNumbers",
         v1::DTYPE_INT64,
         {1},
         {},
         "",
         "payload has 8 bytes; tensor x ends at 16"},
        {"TooManyNumbers",
         v1::DTYPE_INT64,
         {1, 2, 3},
         {},
         "",
         "payload has 24 bytes; its tensors have 16"},
        {"NoValues",
         v1::DTYPE_INT64,
         {},
         {},
         "",
         "payload has 0 bytes; tensor x ends at 16"},
        {"UnknownDType",
         static_cast<v1::DType>(99),
         {1, 2},
         {},
         "",
         "tensor x: dtype 0 is unknown"},
    }),
    [](const auto& info) { return info.param.name; });

TEST(TensorNumbersTest, ChecksumIsOfTheBytes) {
  v1::Tensor proto =
      TensorToProto({"x", Tensor::FromVector<int32_t>({2}, {-5, 7})}, true);
  proto.set_integers(0, 5);
  EXPECT_THAT(TensorFromProto(proto), HasReason(kChecksumMismatch));
}

}  // namespace
}  // namespace cpfeed

#include "core/wire/tensor_codec.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "core/base/checked_math.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"

namespace cpfeed {
namespace {

constexpr size_t kMaxNameBytes = 128;
constexpr int kMaxDimensions = 8;

absl::Span<const int64_t> Dims(const v1::TensorSpec& spec) {
  return {spec.shape().data(), static_cast<size_t>(spec.shape_size())};
}

DType DTypeOfSpec(const v1::TensorSpec& spec) {
  const int number = spec.dtype();
  return v1::DType_IsValid(number) ? static_cast<DType>(number)
                                   : DType::kInvalid;
}

absl::StatusOr<int64_t> CheckSpec(const v1::TensorSpec& spec) {
  if (spec.name().empty() || spec.name().size() > kMaxNameBytes) {
    return InvalidArgument(
        kBatchMalformed, absl::StrCat("name has ", spec.name().size(),
                                      " bytes; must be 1 to ", kMaxNameBytes));
  }
  if (spec.shape_size() > kMaxDimensions) {
    return InvalidArgument(
        kShapeMismatch,
        absl::StrCat("has ", spec.shape_size(), " dimensions; must be at most ",
                     kMaxDimensions));
  }
  if (spec.token_axis() < 0 ||
      spec.token_axis() >= std::max(spec.shape_size(), 1)) {
    return InvalidArgument(
        kShapeMismatch,
        absl::StrCat("token_axis is ", spec.token_axis(), "; must be below ",
                     std::max(spec.shape_size(), 1)));
  }
  return NumBytes(DTypeOfSpec(spec), Dims(spec));
}

absl::Status DoesNotFit(const v1::Tensor& proto, int place,
                        absl::string_view number, absl::string_view range) {
  return InvalidArgument(
      kBatchMalformed,
      absl::StrCat("tensor ", proto.spec().name(), ": number ", place, " is ",
                   number, "; must be ", range, ", as its dtype is ",
                   DTypeName(DTypeOfSpec(proto.spec()))));
}

template <class T>
absl::StatusOr<Buffer> PackIntegers(
    const v1::Tensor& proto, int64_t most = std::numeric_limits<T>::max()) {
  constexpr int64_t kLeast = std::numeric_limits<T>::min();
  std::vector<T> values;
  values.reserve(proto.integers_size());
  for (const int64_t number : proto.integers()) {
    if (number < kLeast || number > most) {
      return DoesNotFit(proto, static_cast<int>(values.size()),
                        absl::StrCat(number),
                        absl::StrCat(kLeast, " to ", most));
    }
    values.push_back(static_cast<T>(number));
  }
  return Buffer::FromVector(std::move(values));
}

absl::StatusOr<Buffer> PackFloats(const v1::Tensor& proto) {
  constexpr double kMost = std::numeric_limits<float>::max();
  std::vector<float> values;
  values.reserve(proto.floats_size());
  for (const double number : proto.floats()) {
    if (std::isfinite(number) && std::abs(number) > kMost) {
      return DoesNotFit(proto, static_cast<int>(values.size()),
                        absl::StrCat(number),
                        absl::StrCat(-kMost, " to ", kMost));
    }
    values.push_back(static_cast<float>(number));
  }
  return Buffer::FromVector(std::move(values));
}

absl::StatusOr<Buffer> NumbersToBytes(const v1::Tensor& proto) {
  switch (DTypeOfSpec(proto.spec())) {
    case DType::kBool:
      return PackIntegers<uint8_t>(proto, 1);
    case DType::kUint8:
      return PackIntegers<uint8_t>(proto);
    case DType::kInt8:
      return PackIntegers<int8_t>(proto);
    case DType::kInt16:
      return PackIntegers<int16_t>(proto);
    case DType::kInt32:
      return PackIntegers<int32_t>(proto);
    case DType::kInt64:
      return PackIntegers<int64_t>(proto);
    case DType::kFloat32:
      return PackFloats(proto);
    case DType::kFloat64:
      return Buffer::FromVector(
          std::vector<double>(proto.floats().begin(), proto.floats().end()));
    default:
      return InvalidArgument(
          kBatchMalformed,
          absl::StrCat("tensor ", proto.spec().name(),
                       ": numbers are not taken for dtype ",
                       DTypeName(DTypeOfSpec(proto.spec())), "; send bytes"));
  }
}

// Values come in one of three fields.
absl::StatusOr<Buffer> ValueBytes(const v1::Tensor& proto) {
  if (proto.integers().empty() && proto.floats().empty()) {
    return Buffer::CopyOf(proto.payload().data(),
                          static_cast<int64_t>(proto.payload().size()));
  }
  const bool wants_floats = IsFloat(DTypeOfSpec(proto.spec()));
  if (!proto.payload().empty() ||
      !(wants_floats ? proto.integers().empty() : proto.floats().empty())) {
    return InvalidArgument(
        kBatchMalformed,
        absl::StrCat("tensor ", proto.spec().name(), " has ",
                     proto.integers_size(), " integers, ", proto.floats_size(),
                     " floats and ", proto.payload().size(),
                     " bytes; must be bytes alone, or ",
                     wants_floats ? "floats" : "integers", " alone"));
  }
  return NumbersToBytes(proto);
}

template <class T>
void WidenFloats(const Buffer& bytes, v1::Tensor& proto) {
  const Buffer whole = bytes.Contiguous();
  const auto* first = reinterpret_cast<const T*>(whole.data());
  proto.mutable_floats()->Add(first, first + whole.size() / sizeof(T));
}

}  // namespace

absl::StatusOr<int64_t> CheckTensorSpecs(const TensorSpecs& specs,
                                         int most_tensors) {
  if (specs.size() > most_tensors) {
    return InvalidArgument(
        kBatchMalformed,
        absl::StrCat(specs.size(), " tensors; must be at most ", most_tensors));
  }
  absl::flat_hash_set<absl::string_view> names;
  int64_t total = 0;
  for (const v1::TensorSpec& spec : specs) {
    const absl::StatusOr<int64_t> bytes = CheckSpec(spec);
    if (!bytes.ok()) {
      return Annotate(bytes.status(), absl::StrCat("tensor ", spec.name()));
    }
    if (!names.insert(spec.name()).second) {
      return InvalidArgument(
          kBatchMalformed,
          absl::StrCat("tensor ", spec.name(), " is given twice"));
    }
    const std::optional<int64_t> sum = CheckedAdd(total, *bytes);
    if (!sum) {
      return InvalidArgument(kBatchTooLarge,
                             "tensors have more than 2^63 bytes");
    }
    total = *sum;
  }
  return total;
}

int64_t SpecBytes(const v1::TensorSpec& spec) {
  return CheckSpec(spec).value_or(0);
}

absl::Status CompareChecksum(absl::string_view tensor, uint64_t computed,
                             uint64_t given) {
  if (computed == given) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kDataLoss, kChecksumMismatch,
      absl::StrCat("tensor ", tensor, ": checksum is ", absl::Hex(computed),
                   "; must be ", absl::Hex(given)));
}

absl::StatusOr<std::vector<NamedTensor>> DecodeTensors(const TensorSpecs& specs,
                                                       const Buffer& payload,
                                                       Checksums checksums) {
  std::vector<NamedTensor> tensors;
  tensors.reserve(specs.size());
  int64_t offset = 0;
  for (const v1::TensorSpec& spec : specs) {
    CF_ASSIGN_OR_RETURN(const int64_t bytes, CheckSpec(spec));
    if (bytes > payload.size() - offset) {
      return InvalidArgument(
          kShapeMismatch,
          absl::StrCat("payload has ", payload.size(), " bytes; tensor ",
                       spec.name(), " ends at ", offset + bytes));
    }
    Tensor tensor{.dtype = DTypeOfSpec(spec),
                  .shape = Shape(spec.shape().begin(), spec.shape().end()),
                  .bytes = payload.Slice(offset, bytes)};
    if (spec.checksum() != 0 && checksums == Checksums::kCompare) {
      CF_RETURN_IF_ERROR(CompareChecksum(spec.name(), tensor.bytes.Checksum(),
                                         spec.checksum()));
    }
    tensors.push_back({.name = spec.name(),
                       .tensor = std::move(tensor),
                       .token_axis = spec.token_axis()});
    offset += bytes;
  }
  if (offset != payload.size()) {
    return InvalidArgument(kShapeMismatch,
                           absl::StrCat("payload has ", payload.size(),
                                        " bytes; its tensors have ", offset));
  }
  return tensors;
}

void EncodeTensor(absl::string_view name, const Tensor& tensor,
                  int sequence_axis, TensorSpecs& specs, Buffer& payload) {
  v1::TensorSpec& spec = *specs.Add();
  spec.set_name(std::string(name));
  spec.set_dtype(static_cast<v1::DType>(tensor.dtype));
  spec.mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
  spec.set_checksum(tensor.bytes.Checksum());
  spec.set_sequence_axis(sequence_axis);
  payload.Append(tensor.bytes);
}

v1::Tensor TensorToProto(const NamedTensor& tensor, bool as_numbers) {
  v1::Tensor proto;
  Buffer payload;
  TensorSpecs specs;
  EncodeTensor(tensor.name, tensor.tensor, 0, specs, payload);
  *proto.mutable_spec() = std::move(*specs.Mutable(0));
  const DType dtype = tensor.tensor.dtype;
  if (as_numbers && (IsInteger(dtype) || dtype == DType::kBool)) {
    const auto integers = tensor.tensor.ToInt64();
    proto.mutable_integers()->Add(integers->begin(), integers->end());
  } else if (as_numbers && dtype == DType::kFloat32) {
    WidenFloats<float>(payload, proto);
  } else if (as_numbers && dtype == DType::kFloat64) {
    WidenFloats<double>(payload, proto);
  } else {
    std::string& bytes = *proto.mutable_payload();
    bytes.resize(static_cast<size_t>(payload.size()));
    payload.CopyTo(bytes.data());
  }
  return proto;
}

absl::StatusOr<NamedTensor> TensorFromProto(const v1::Tensor& proto) {
  TensorSpecs specs;
  *specs.Add() = proto.spec();
  CF_RETURN_IF_ERROR(CheckTensorSpecs(specs).status());
  CF_ASSIGN_OR_RETURN(const Buffer bytes, ValueBytes(proto));
  CF_ASSIGN_OR_RETURN(std::vector<NamedTensor> tensors,
                      DecodeTensors(specs, bytes));
  return std::move(tensors[0]);
}

}  // namespace cpfeed

#include "core/tensor/dtype.h"

#include "absl/strings/str_cat.h"
#include "core/base/error.h"

namespace cpfeed {
namespace {

struct DTypeInfo {
  DType dtype;
  absl::string_view name;
  int64_t item_size;
  bool is_float;
};

constexpr DTypeInfo kDTypes[] = {
    {DType::kInvalid, "invalid", 0, false},
    {DType::kBool, "bool", 1, false},
    {DType::kUint8, "uint8", 1, false},
    {DType::kInt8, "int8", 1, false},
    {DType::kInt16, "int16", 2, false},
    {DType::kInt32, "int32", 4, false},
    {DType::kInt64, "int64", 8, false},
    {DType::kFloat16, "float16", 2, true},
    {DType::kBfloat16, "bfloat16", 2, true},
    {DType::kFloat32, "float32", 4, true},
    {DType::kFloat64, "float64", 8, true},
};

const DTypeInfo& Info(DType dtype) {
  const int number = static_cast<int>(dtype);
  const bool known =
      number >= 0 && number < static_cast<int>(std::size(kDTypes));
  return kDTypes[known ? number : 0];
}

}  // namespace

int64_t ItemSize(DType dtype) { return Info(dtype).item_size; }

absl::string_view DTypeName(DType dtype) { return Info(dtype).name; }

bool IsFloat(DType dtype) { return Info(dtype).is_float; }

bool IsInteger(DType dtype) {
  return ItemSize(dtype) > 0 && !IsFloat(dtype) && dtype != DType::kBool;
}

absl::StatusOr<DType> ParseDType(absl::string_view name) {
  for (const DTypeInfo& info : kDTypes) {
    if (info.name == name && info.dtype != DType::kInvalid) return info.dtype;
  }
  return InvalidArgument(kBatchMalformed,
                         absl::StrCat("\"", name, "\" is no dtype"));
}

}  // namespace cpfeed

// Element types of tensors on the wire and in memory.

#ifndef CPFEED_CORE_TENSOR_DTYPE_H_
#define CPFEED_CORE_TENSOR_DTYPE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cpfeed {

// The numbers are those of cpfeed.v1.DType.
enum class DType : int8_t {
  kInvalid = 0,
  kBool = 1,  // One byte, 0 or 1.
  kUint8 = 2,
  kInt8 = 3,
  kInt16 = 4,
  kInt32 = 5,
  kInt64 = 6,
  kFloat16 = 7,
  kBfloat16 = 8,
  kFloat32 = 9,
  kFloat64 = 10,
};

// Bytes of one element; 0 for kInvalid and for numbers that are no DType.
int64_t ItemSize(DType dtype);

// The name, such as "int64" or "bfloat16"; "invalid" for what is none.
absl::string_view DTypeName(DType dtype);

bool IsFloat(DType dtype);
bool IsInteger(DType dtype);  // int8 to int64 and uint8; bool is none.

// The reverse of DTypeName.
//
// Errors:
//   INVALID_ARGUMENT  `name` is no dtype.
absl::StatusOr<DType> ParseDType(absl::string_view name);

// The DType of a C++ type: DTypeOf<int32_t>() is DType::kInt32.
template <class T>
constexpr DType DTypeOf();
template <>
constexpr DType DTypeOf<bool>() {
  return DType::kBool;
}
template <>
constexpr DType DTypeOf<uint8_t>() {
  return DType::kUint8;
}
template <>
constexpr DType DTypeOf<int32_t>() {
  return DType::kInt32;
}
template <>
constexpr DType DTypeOf<int64_t>() {
  return DType::kInt64;
}
template <>
constexpr DType DTypeOf<float>() {
  return DType::kFloat32;
}
template <>
constexpr DType DTypeOf<double>() {
  return DType::kFloat64;
}

}  // namespace cpfeed

#endif  // CPFEED_CORE_TENSOR_DTYPE_H_

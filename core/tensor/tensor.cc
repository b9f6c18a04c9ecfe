#include "core/tensor/tensor.h"

#include "absl/strings/str_cat.h"
#include "core/base/error.h"

namespace cpfeed {
namespace {

template <class T>
std::vector<int64_t> Widen(const Buffer& bytes) {
  const auto* first = reinterpret_cast<const T*>(bytes.data());
  return std::vector<int64_t>(first, first + bytes.size() / sizeof(T));
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> Tensor::ToInt64() const {
  const Buffer whole = bytes.Contiguous();
  switch (dtype) {
    case DType::kBool:
    case DType::kUint8:
      return Widen<uint8_t>(whole);
    case DType::kInt8:
      return Widen<int8_t>(whole);
    case DType::kInt16:
      return Widen<int16_t>(whole);
    case DType::kInt32:
      return Widen<int32_t>(whole);
    case DType::kInt64:
      return Widen<int64_t>(whole);
    default:
      return InvalidArgument(
          kBatchMalformed,
          absl::StrCat("dtype is ", DTypeName(dtype), "; must be an integer"));
  }
}

absl::Status ValidateTensor(absl::string_view name, const Tensor& tensor) {
  const absl::StatusOr<int64_t> bytes = NumBytes(tensor.dtype, tensor.shape);
  if (!bytes.ok()) return Annotate(bytes.status(), name);
  if (*bytes != tensor.bytes.size()) {
    return InvalidArgument(
        kShapeMismatch,
        absl::StrCat(name, " has ", tensor.bytes.size(), " bytes; shape ",
                     ShapeString(tensor.shape), " of ", DTypeName(tensor.dtype),
                     " needs ", *bytes));
  }
  return absl::OkStatus();
}

}  // namespace cpfeed

#include "core/tensor/shape.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/checked_math.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {

namespace {

// The product of `factor` and the dimensions that are not 0; nothing if it
// exceeds int64. No product of some of them does if this one does not.
absl::StatusOr<std::optional<int64_t>> NonzeroProduct(
    int64_t factor, absl::Span<const int64_t> shape) {
  std::optional<int64_t> product = factor;
  for (const int64_t dim : shape) {
    if (dim < 0) {
      return InvalidArgument(kShapeMismatch,
                             absl::StrCat("shape ", ShapeString(shape),
                                          " has a negative dimension"));
    }
    if (dim > 0 && product) product = CheckedMul(*product, dim);
  }
  return product;
}

bool IsEmpty(absl::Span<const int64_t> shape) {
  return std::find(shape.begin(), shape.end(), 0) != shape.end();
}

}  // namespace

absl::StatusOr<int64_t> NumElements(absl::Span<const int64_t> shape) {
  CF_ASSIGN_OR_RETURN(const std::optional<int64_t> product,
                      NonzeroProduct(1, shape));
  if (!product) {
    return InvalidArgument(kShapeMismatch,
                           absl::StrCat("shape ", ShapeString(shape),
                                        " has more than 2^63 elements"));
  }
  return IsEmpty(shape) ? 0 : *product;
}

absl::StatusOr<int64_t> NumBytes(DType dtype, absl::Span<const int64_t> shape) {
  const int64_t item_size = ItemSize(dtype);
  if (item_size == 0) {
    return InvalidArgument(
        kBatchMalformed,
        absl::StrCat("dtype ", static_cast<int>(dtype), " is unknown"));
  }
  CF_ASSIGN_OR_RETURN(const std::optional<int64_t> bytes,
                      NonzeroProduct(item_size, shape));
  if (!bytes) {
    return InvalidArgument(
        kShapeMismatch,
        absl::StrCat("shape ", ShapeString(shape), " of ", DTypeName(dtype),
                     " has more than 2^63 bytes"));
  }
  return IsEmpty(shape) ? 0 : *bytes;
}

std::string ShapeString(absl::Span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

}  // namespace cpfeed

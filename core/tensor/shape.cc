#include "core/tensor/shape.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/checked_math.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {

absl::StatusOr<int64_t> NumElements(absl::Span<const int64_t> shape) {
  for (const int64_t dim : shape) {
    if (dim < 0) {
      return InvalidArgument(kShapeMismatch,
                             absl::StrCat("shape ", ShapeString(shape),
                                          " has a negative dimension"));
    }
  }
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  int64_t product = 1;
  for (const int64_t dim : shape) {
    const std::optional<int64_t> next = CheckedMul(product, dim);
    if (!next) {
      return InvalidArgument(kShapeMismatch,
                             absl::StrCat("shape ", ShapeString(shape),
                                          " has more than 2^63 elements"));
    }
    product = *next;
  }
  return product;
}

absl::StatusOr<int64_t> NumBytes(DType dtype, absl::Span<const int64_t> shape) {
  const int64_t item_size = ItemSize(dtype);
  if (item_size == 0) {
    return InvalidArgument(
        kBatchMalformed,
        absl::StrCat("dtype ", static_cast<int>(dtype), " is unknown"));
  }
  CF_ASSIGN_OR_RETURN(const int64_t elements, NumElements(shape));
  const std::optional<int64_t> bytes = CheckedMul(elements, item_size);
  if (!bytes) {
    return InvalidArgument(
        kShapeMismatch,
        absl::StrCat("shape ", ShapeString(shape), " of ", DTypeName(dtype),
                     " has more than 2^63 bytes"));
  }
  return *bytes;
}

std::string ShapeString(absl::Span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

}  // namespace cpfeed

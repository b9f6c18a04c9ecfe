// Shapes, with sizes that cannot overflow.

#ifndef CPFEED_CORE_TENSOR_SHAPE_H_
#define CPFEED_CORE_TENSOR_SHAPE_H_

#include <cstdint>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/tensor/dtype.h"

namespace cpfeed {

// Row-major dimensions; a scalar has none.
using Shape = absl::InlinedVector<int64_t, 4>;

// The product of the dimensions.
//
// Errors:
//   INVALID_ARGUMENT  A dimension is negative, or the product exceeds int64:
//                     that of the dimensions that are not 0, so that no product
//                     of some dimensions overflows either.
absl::StatusOr<int64_t> NumElements(absl::Span<const int64_t> shape);

// The same in bytes.
//
// Errors:
//   INVALID_ARGUMENT  As above, or `dtype` is unknown.
absl::StatusOr<int64_t> NumBytes(DType dtype, absl::Span<const int64_t> shape);

// "[2, 3]".
std::string ShapeString(absl::Span<const int64_t> shape);

}  // namespace cpfeed

#endif  // CPFEED_CORE_TENSOR_SHAPE_H_

// Element-wise reductions of arrays.

#ifndef CPFEED_CORE_COMM_REDUCTION_H_
#define CPFEED_CORE_COMM_REDUCTION_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/tensor/dtype.h"

namespace cpfeed {

enum class ReduceOp { kSum, kMax, kMin };

// into[i] = op(into[i], from[i]), in `dtype`: int32, int64, float32 or float64.
// Narrower floats are refused: a sum over ranks is kept in at least float32.
//
// Errors:
//   INVALID_ARGUMENT  Another dtype, or sizes that differ or are no multiple
//                     of its size.
absl::Status ReduceInto(DType dtype, ReduceOp op,
                        absl::Span<const std::byte> from,
                        absl::Span<std::byte> into);

}  // namespace cpfeed

#endif  // CPFEED_CORE_COMM_REDUCTION_H_

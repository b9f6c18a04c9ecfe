// The few tensor operations that upstream's functions are made of, with the
// exceptions that they raise.

#ifndef CPFEED_CORE_THD_PARITY_TENSORS_H_
#define CPFEED_CORE_THD_PARITY_TENSORS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/tensor/tensor.h"

namespace cpfeed {

// Whether `status` is a PythonError; our own reasons are upper-case words.
bool IsPythonError(const absl::Status& status);

// The same bytes in the shape [num_tokens, numel / num_tokens]; a second axis
// of 1 is dropped.
//
// Errors:
//   INVALID_ARGUMENT  RuntimeError: num_tokens is 0 or does not divide numel.
absl::StatusOr<Tensor> FlattenTokens(const Tensor& tensor, int64_t num_tokens);

// Rows [begin, end) of axis 0, as far as there are such; shares the bytes.
//
// Errors:
//   INVALID_ARGUMENT  IndexError: `tensor` is a scalar.
absl::StatusOr<Tensor> SliceAxis0(const Tensor& tensor, int64_t begin,
                                  int64_t end);

// [n, shape...] of n tensors of one shape and dtype; shares the bytes.
//
// Errors:
//   INVALID_ARGUMENT  RuntimeError: the shapes differ.
absl::StatusOr<Tensor> Stack(const std::vector<Tensor>& tensors);

// The rows `index` of axis 0.
//
// Errors:
//   INVALID_ARGUMENT  IndexError: there is no such row.
absl::StatusOr<Tensor> TakeRows(const Tensor& tensor,
                                absl::Span<const int32_t> index);

// The elements as int64; floats are cut towards zero, as a cast does.
Tensor CastToInt64(const Tensor& tensor);

// A bool tensor of the same shape: which elements equal `value`.
Tensor EqualTo(const Tensor& tensor, int64_t value);

}  // namespace cpfeed

#endif  // CPFEED_CORE_THD_PARITY_TENSORS_H_

// A tensor: dtype, shape and bytes. No LibTorch, no arithmetic.

#ifndef CPFEED_CORE_TENSOR_TENSOR_H_
#define CPFEED_CORE_TENSOR_TENSOR_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/base/status_macros.h"
#include "core/tensor/buffer.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"

namespace cpfeed {

// Row-major, little-endian. A value: copies share the bytes.
struct Tensor {
  DType dtype = DType::kInvalid;
  Shape shape;
  Buffer bytes;

  bool empty() const { return dtype == DType::kInvalid; }

  // Takes over `values`, whose count must be that of `shape`.
  template <class T>
  // NOLINTNEXTLINE(performance-unnecessary-value-param): it is moved.
  static Tensor FromVector(Shape shape, std::vector<T> values) {
    return Tensor{.dtype = DTypeOf<T>(),
                  .shape = std::move(shape),
                  .bytes = Buffer::FromVector(std::move(values))};
  }

  // The elements of a tensor whose bytes are one aligned fragment (see
  // Buffer::Contiguous) and whose dtype is T's.
  template <class T>
  absl::Span<const T> Values() const {
    CF_CHECK(dtype == DTypeOf<T>());
    return absl::MakeConstSpan(reinterpret_cast<const T*>(bytes.data()),
                               static_cast<size_t>(bytes.size() / sizeof(T)));
  }

  // The elements as int64, whatever the integer dtype (bool counts as one) and
  // however the bytes are cut. For lengths and other small tensors.
  //
  // Errors:
  //   INVALID_ARGUMENT  The dtype is a float.
  absl::StatusOr<std::vector<int64_t>> ToInt64() const;
};

// A tensor with the name that it has in the batch.
struct NamedTensor {
  std::string name;
  Tensor tensor;
  int token_axis = 0;  // Of a shard's token tensors: the axis of its rows.
};

// Checks that dtype and shape are sane and give just the size of the bytes.
//
// Errors:
//   INVALID_ARGUMENT  They do not; the message has `name` and both sizes.
absl::Status ValidateTensor(absl::string_view name, const Tensor& tensor);

}  // namespace cpfeed

#endif  // CPFEED_CORE_TENSOR_TENSOR_H_

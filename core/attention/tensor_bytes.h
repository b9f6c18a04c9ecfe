// The bytes of contiguous LibTorch tensors, for sending and receiving.

#ifndef CPFEED_CORE_ATTENTION_TENSOR_BYTES_H_
#define CPFEED_CORE_ATTENTION_TENSOR_BYTES_H_

#include <ATen/core/Tensor.h>

#include <cstddef>

#include "absl/types/span.h"
#include "core/base/status_macros.h"

namespace cpfeed {

// Valid as long as the tensor's storage.
inline absl::Span<const std::byte> BytesOf(const at::Tensor& tensor) {
  CF_CHECK(tensor.is_contiguous());
  return {static_cast<const std::byte*>(tensor.const_data_ptr()),
          tensor.nbytes()};
}

inline absl::Span<std::byte> MutableBytesOf(const at::Tensor& tensor) {
  CF_CHECK(tensor.is_contiguous());
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_TENSOR_BYTES_H_

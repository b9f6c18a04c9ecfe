// Our tensors and LibTorch's.

#ifndef CPFEED_CORE_CONTEXT_TORCH_TENSOR_H_
#define CPFEED_CORE_CONTEXT_TORCH_TENSOR_H_

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/tensor/tensor.h"

namespace cpfeed {

// Shares the memory; a copy where the tensor is not contiguous, or not on the
// CPU. `name` is for the message.
//
// Errors:
//   INVALID_ARGUMENT  A dtype that batches do not have (reason SHAPE_MISMATCH).
absl::StatusOr<Tensor> FromTorch(absl::string_view name,
                                 const at::Tensor& tensor);

// A copy.
at::Tensor ToTorch(const Tensor& tensor);

}  // namespace cpfeed

#endif  // CPFEED_CORE_CONTEXT_TORCH_TENSOR_H_

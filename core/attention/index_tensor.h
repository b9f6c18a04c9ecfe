// Row numbers as tensors.

#ifndef CPFEED_CORE_ATTENTION_INDEX_TENSOR_H_
#define CPFEED_CORE_ATTENTION_INDEX_TENSOR_H_

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace cpfeed {

// A copy of the numbers, int64 or int32, on `device`. For a GPU it is queued
// from pinned memory: the host does not wait.
template <class T>
at::Tensor IndexTensor(const std::vector<T>& numbers, at::Device device) {
  const at::ScalarType type = sizeof(T) == 8 ? at::kLong : at::kInt;
  at::Tensor tensor =
      at::empty({static_cast<int64_t>(numbers.size())},
                at::TensorOptions(type).pinned_memory(device.is_cuda()));
  std::copy(numbers.begin(), numbers.end(), tensor.mutable_data_ptr<T>());
  return tensor.to(device, /*non_blocking=*/true);
}

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_INDEX_TENSOR_H_

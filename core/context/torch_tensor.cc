#include "core/context/torch_tensor.h"

#include <ATen/ops/empty.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/tensor/buffer.h"
#include "core/tensor/dtype.h"

namespace cpfeed {
namespace {

struct DTypePair {
  DType ours;
  at::ScalarType theirs;
};

constexpr DTypePair kDTypes[] = {
    {DType::kBool, at::kBool},     {DType::kUint8, at::kByte},
    {DType::kInt8, at::kChar},     {DType::kInt16, at::kShort},
    {DType::kInt32, at::kInt},     {DType::kInt64, at::kLong},
    {DType::kFloat16, at::kHalf},  {DType::kBfloat16, at::kBFloat16},
    {DType::kFloat32, at::kFloat}, {DType::kFloat64, at::kDouble},
};

}  // namespace

absl::StatusOr<Tensor> FromTorch(absl::string_view name,
                                 const at::Tensor& tensor) {
  for (const DTypePair& pair : kDTypes) {
    if (pair.theirs != tensor.scalar_type()) continue;
    auto owner =
        std::make_shared<const at::Tensor>(tensor.detach().contiguous().cpu());
    const auto bytes = static_cast<int64_t>(owner->nbytes());
    return Tensor{.dtype = pair.ours,
                  .shape = Shape(tensor.sizes().begin(), tensor.sizes().end()),
                  .bytes = Buffer::Wrap(owner, owner->const_data_ptr(), bytes)};
  }
  return InvalidArgument(kShapeMismatch,
                         absl::StrCat(name,
                                      " has a dtype that batches do not "
                                      "have"));
}

at::Tensor ToTorch(const Tensor& tensor) {
  at::ScalarType dtype = at::kLong;
  for (const DTypePair& pair : kDTypes) {
    if (pair.ours == tensor.dtype) dtype = pair.theirs;
  }
  at::Tensor copy = at::empty(
      std::vector<int64_t>(tensor.shape.begin(), tensor.shape.end()), dtype);
  tensor.bytes.CopyTo(copy.mutable_data_ptr());
  return copy;
}

}  // namespace cpfeed

#include "core/context/cp_batch_te.h"

#include <ATen/ops/empty.h>

#include <memory>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/shard/parity_shard.h"
#include "core/tensor/dtype.h"
#include "core/thd/parity_dict.h"

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

// Shares the memory; a copy where the tensor is not contiguous.
absl::StatusOr<Tensor> FromTorch(const std::string& name,
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

absl::StatusOr<ParityDict> ToDict(
    const TensorBatch& tensors,
    const std::map<std::string, std::string>& values) {
  ParityDict dict;
  for (const auto& [name, tensor] : tensors) {
    CF_ASSIGN_OR_RETURN(Tensor ours, FromTorch(name, tensor));
    dict.Set(name, std::move(ours));
  }
  for (const auto& [name, json] : values) dict.Set(name, PlainValue{json});
  return dict;
}

TeBatch FromShard(const ParityShard& shard) {
  TeBatch batch;
  for (const auto& [name, value] : shard.batch.entries()) {
    if (const auto* tensor = std::get_if<Tensor>(&value)) {
      batch.tensors[name] = ToTorch(*tensor);
    } else {
      batch.values[name] = std::get<PlainValue>(value).json;
    }
  }
  if (shard.local_indices) batch.local_indices = ToTorch(*shard.local_indices);
  return batch;
}

}  // namespace

absl::StatusOr<TeBatch> MakeCpBatchForTe(const TensorBatch& batch,
                                         const ParityOptions& options,
                                         ParityRank rank,
                                         absl::string_view qkv_format) {
  CF_ASSIGN_OR_RETURN(const ParityDict dict, ToDict(batch, {}));
  CF_ASSIGN_OR_RETURN(const ParityShard shard,
                      MakeCpBatchForTe(dict, options, qkv_format, rank));
  return FromShard(shard);
}

absl::StatusOr<TeBatch> ShardThdChunkForTe(const TeBatch& chunk,
                                           const ParityOptions& options,
                                           ParityRank rank) {
  CF_ASSIGN_OR_RETURN(const ParityDict dict,
                      ToDict(chunk.tensors, chunk.values));
  CF_ASSIGN_OR_RETURN(const ParityShard shard,
                      ShardThdChunkForTe(dict, options, rank));
  return FromShard(shard);
}

}  // namespace cpfeed

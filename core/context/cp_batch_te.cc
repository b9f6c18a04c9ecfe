#include "core/context/cp_batch_te.h"

#include <utility>
#include <variant>

#include "core/base/status_macros.h"
#include "core/context/torch_tensor.h"
#include "core/shard/parity_shard.h"
#include "core/tensor/tensor.h"
#include "core/thd/parity_dict.h"

namespace cpfeed {
namespace {

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

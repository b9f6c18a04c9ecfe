#include "core/shard/parity_shard.h"

#include <cstdint>
#include <numeric>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/batch/parity.h"
#include "core/tensor/buffer.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"
#include "core/thd/parity_chunks.h"
#include "core/thd/parity_rules.h"
#include "core/thd/parity_tensors.h"

namespace cpfeed {
namespace {

constexpr absl::string_view kTokenKeys[] = {"input_ids", "labels",
                                            "position_ids", "padding_mask"};

// This rank's rows of each token tensor of `chunk`, in place.
absl::StatusOr<std::vector<int32_t>> TakeTokens(const ParitySlots& slots,
                                                ParityRank rank,
                                                ParityDict& chunk) {
  if (!chunk.Has("input_ids")) {
    return PythonError("KeyError", "input_ids is missing");
  }
  std::vector<int32_t> index;
  for (const absl::string_view key : kTokenKeys) {  // input_ids first.
    if (!chunk.Has(key)) continue;
    const Tensor* const tensor = chunk.FindTensor(key);
    if (tensor == nullptr) {
      return PythonError("AttributeError", absl::StrCat(key, " is no tensor"));
    }
    if (tensor->shape.empty()) {
      return PythonError("IndexError", absl::StrCat(key, " is a scalar"));
    }
    if (key == "input_ids") {
      CF_ASSIGN_OR_RETURN(index,
                          ParityPartition(slots, tensor->shape[0], rank));
    }
    CF_ASSIGN_OR_RETURN(Tensor taken, TakeRows(*tensor, index));
    if (tensor->shape[0] != slots.boundaries.back()) {
      return InvalidArgument(
          kShapeMismatch,
          absl::StrCat(key, " has shape ", ShapeString(tensor->shape),
                       "; its first axis must have the ",
                       slots.boundaries.back(), " tokens of the slots"));
    }
    chunk.Set(key, std::move(taken));
  }
  return index;
}

Tensor Scalar32(int64_t value) {
  return Tensor{.dtype = DType::kInt32,
                .shape = {},
                .bytes = Buffer::FromVector(
                    std::vector<int32_t>{static_cast<int32_t>(value)})};
}

absl::Status CastTokens(const ParityDict& from, ParityDict& to) {
  for (const absl::string_view key : {"input_ids", "labels", "position_ids"}) {
    const Tensor* const tensor = from.FindTensor(key);
    if (tensor == nullptr) {
      return PythonError("KeyError", absl::StrCat(key, " is missing"));
    }
    to.Set(key, CastToInt64(*tensor));
  }
  return absl::OkStatus();
}

// The tensors of chunk `i` of a stacked batch, and all that is no tensor.
absl::StatusOr<ParityDict> ChunkOf(const ParityDict& stacked, int64_t i) {
  ParityDict chunk;
  for (const auto& [key, value] : stacked.entries()) {
    const Tensor* const tensor = std::get_if<Tensor>(&value);
    if (tensor == nullptr) {
      chunk.Set(key, value);
      continue;
    }
    CF_ASSIGN_OR_RETURN(Tensor slice, SliceAxis0(*tensor, i, i + 1));
    slice.shape.erase(slice.shape.begin());
    chunk.Set(key, std::move(slice));
  }
  return chunk;
}

absl::StatusOr<ParityShard> ShardAndStack(const ParityDict& stacked,
                                          const ParityOptions& options,
                                          ParityRank rank) {
  std::vector<ParityDict> chunks;
  for (int64_t i = 0; i < options.num_chunks; ++i) {
    CF_ASSIGN_OR_RETURN(const ParityDict chunk, ChunkOf(stacked, i));
    absl::StatusOr<ParityShard> shard =
        ShardThdChunkForTe(chunk, options, rank);
    if (!shard.ok()) return Annotate(shard.status(), absl::StrCat("chunk ", i));
    chunks.push_back(std::move(shard->batch));
  }
  ParityShard result;
  for (const absl::string_view key :
       {"input_ids", "labels", "position_ids", "cu_seqlens", "max_seqlen",
        "padding_mask"}) {
    std::vector<Tensor> tensors;
    for (const ParityDict& chunk : chunks) {
      tensors.push_back(*chunk.FindTensor(key));
    }
    CF_ASSIGN_OR_RETURN(Tensor tensor, Stack(tensors));
    result.batch.Set(key, std::move(tensor));
  }
  for (const absl::string_view key : {"qkv_format", "cp_size", "cp_rank"}) {
    result.batch.Set(key, *chunks[0].Find(key));
  }
  return result;
}

// Without context parallelism every token is local. Of embeddings upstream
// counts the width instead of the tokens, and so does this.
Tensor IdentityIndices(const ParityDict& converted) {
  const int64_t size = converted.FindTensor("input_ids")->shape.back();
  std::vector<int64_t> index(size);
  std::iota(index.begin(), index.end(), 0);
  return Tensor::FromVector({size}, std::move(index));
}

}  // namespace

absl::StatusOr<ParityShard> ShardThdChunkForTe(const ParityDict& chunk,
                                               const ParityOptions& options,
                                               ParityRank rank) {
  CF_RETURN_IF_ERROR(CheckParityRank(rank));
  CF_ASSIGN_OR_RETURN(const ParitySlots slots,
                      ReadParitySlots(chunk, options.seq_lens_padding_value));
  ParityDict local = chunk;
  CF_ASSIGN_OR_RETURN(std::vector<int32_t> index,
                      TakeTokens(slots, rank, local));
  ParityShard shard;
  if (options.parity == Parity::kAutomodel07) {
    shard.batch = local;
    shard.batch.Erase("attention_mask");
    shard.batch.Erase("cu_seqlens_padded");
    const int64_t size = static_cast<int64_t>(index.size());
    shard.local_indices = Tensor::FromVector({size}, std::move(index));
  }
  CF_RETURN_IF_ERROR(CastTokens(local, shard.batch));
  if (options.parity == Parity::kAutomodel04 || !local.Has("padding_mask")) {
    shard.batch.Set("padding_mask", EqualTo(*local.FindTensor("input_ids"),
                                            options.padding_token_id));
  }
  shard.batch.Set("cu_seqlens", slots.with_fillers);
  shard.batch.Set("max_seqlen", Scalar32(slots.WidestSlot()));
  shard.batch.Set("qkv_format", PlainValue{"\"thd\""});
  shard.batch.Set("cp_size", PlainValue{absl::StrCat(rank.cp_size)});
  shard.batch.Set("cp_rank", PlainValue{absl::StrCat(rank.cp_rank)});
  return shard;
}

absl::StatusOr<ParityShard> MakeCpBatchForTe(const ParityDict& batch,
                                             const ParityOptions& options,
                                             absl::string_view qkv_format,
                                             ParityRank rank) {
  CF_RETURN_IF_ERROR(CheckParityRank(rank));
  if (qkv_format != "thd") {
    return PythonError("ValueError", absl::StrCat("qkv_format is ", qkv_format,
                                                  "; must be thd"));
  }
  CF_ASSIGN_OR_RETURN(ParityDict converted,
                      RunSplitIntoThdChunks(batch, options));
  ParityShard shard;
  const absl::Status rules = CheckParityRules(batch, options);
  if (rank.cp_size == 1) {
    CF_RETURN_IF_ERROR(rules);
    if (options.parity == Parity::kAutomodel07 && options.num_chunks == 1) {
      shard.local_indices = IdentityIndices(converted);
    }
    shard.batch = std::move(converted);
    return shard;
  }
  absl::StatusOr<ParityShard> sharded =
      options.num_chunks <= 1 ? ShardThdChunkForTe(converted, options, rank)
                              : ShardAndStack(converted, options, rank);
  // Upstream's exceptions first, then the rules, which name rows, and last what
  // only TransformerEngine's partition minds.
  if (IsPythonError(sharded.status())) return sharded.status();
  CF_RETURN_IF_ERROR(rules);
  return sharded;
}

}  // namespace cpfeed

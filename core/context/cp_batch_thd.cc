#include "core/context/cp_batch_thd.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/scalar_tensor.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/context/torch_tensor.h"
#include "core/plan/shard_plan.h"
#include "core/shard/prepare_batch.h"
#include "core/shard/shard.h"
#include "core/shard/shard_executor.h"

namespace cpfeed {
namespace {

absl::StatusOr<RaggedLengths> RowsOf(absl::string_view name,
                                     const Tensor& lengths) {
  if (lengths.shape.size() != 2) {
    return InvalidArgument(kShapeMismatch,
                           absl::StrCat(name, " has ", lengths.shape.size(),
                                        " axes; must be [B, sequences]"));
  }
  auto values = lengths.ToInt64();
  if (!values.ok()) return Annotate(values.status(), name);
  RaggedLengths rows{.values = *std::move(values), .row_splits = {0}};
  for (int64_t row = 1; row <= lengths.shape[0]; ++row) {
    rows.row_splits.push_back(row * lengths.shape[1]);
  }
  return rows;
}

absl::StatusOr<PackedBatch> ToPackedBatch(const TensorBatch& batch) {
  PackedBatch packed;
  for (const auto& [name, value] : batch) {
    CF_ASSIGN_OR_RETURN(Tensor tensor, FromTorch(name, value));
    if (name == "seq_lens") {
      CF_ASSIGN_OR_RETURN(packed.seq_lens, RowsOf(name, tensor));
    } else if (name == "seq_lens_padded") {
      CF_ASSIGN_OR_RETURN(packed.seq_lens_padded, RowsOf(name, tensor));
    } else if (name == "input_ids") {
      packed.input_ids = std::move(tensor);
    } else if (name == "labels") {
      packed.labels = std::move(tensor);
    } else if (name == "position_ids") {
      packed.position_ids = std::move(tensor);
    } else if (name == "attention_mask") {
      packed.attention_mask = std::move(tensor);
    } else if (name == "padding_mask") {
      packed.padding_mask = std::move(tensor);
    } else {
      packed.extras.push_back({.name = name, .tensor = std::move(tensor)});
    }
  }
  return packed;
}

at::Tensor Int32s(const std::vector<int32_t>& numbers) {
  return at::from_blob(const_cast<int32_t*>(numbers.data()),
                       {static_cast<int64_t>(numbers.size())}, at::kInt)
      .clone();
}

TeBatch BatchOf(const Shard& shard, ParityRank rank,
                int64_t num_label_tokens_global) {
  TeBatch batch;
  for (const NamedTensor& named : shard.tensors) {
    batch.tensors[named.name] = ToTorch(named.tensor);
  }
  const ThdChunk& chunk = *shard.chunk;
  batch.tensors["cu_seqlens"] = Int32s(chunk.cu_seqlens);
  batch.tensors["cu_seqlens_padded"] = Int32s(chunk.cu_seqlens_padded);
  batch.tensors["max_seqlen"] = at::scalar_tensor(chunk.max_seqlen, at::kInt);
  batch.tensors["max_seqlen_padded"] =
      at::scalar_tensor(chunk.max_seqlen_padded, at::kInt);
  batch.values = {
      {"qkv_format", "\"thd\""},
      {"cp_size", absl::StrCat(rank.cp_size)},
      {"cp_rank", absl::StrCat(rank.cp_rank)},
      {"num_label_tokens", absl::StrCat(shard.num_label_tokens)},
      {"num_label_tokens_global", absl::StrCat(num_label_tokens_global)}};
  batch.local_indices = Int32s(LocalIndex(*shard.plan, shard.cp_rank));
  return batch;
}

}  // namespace

absl::StatusOr<std::vector<TeBatch>> MakeCpBatchForTe(
    const TensorBatch& batch, const CpThdOptions& options, ParityRank rank,
    absl::string_view qkv_format) {
  if (qkv_format != "thd") {
    return InvalidArgument(
        kBadOption,
        absl::StrCat("qkv_format is ", qkv_format, "; must be thd"));
  }
  CF_RETURN_IF_ERROR(CheckParityRank(rank));
  CF_ASSIGN_OR_RETURN(const PackedBatch packed, ToPackedBatch(batch));
  CF_ASSIGN_OR_RETURN(
      const PreparedBatch prepared,
      PrepareBatch(packed, options.batch, options.layout, rank.cp_size));
  CF_ASSIGN_OR_RETURN(
      const std::vector<StepShard> shards,
      MakeCpuShardExecutor()->Execute(prepared.thd, prepared.plans));
  const StepShard& own = shards[rank.cp_rank];
  std::vector<TeBatch> chunks;
  for (const Shard& chunk : own.chunks) {
    chunks.push_back(BatchOf(chunk, rank, own.num_label_tokens_global));
  }
  return chunks;
}

}  // namespace cpfeed

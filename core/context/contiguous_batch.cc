#include "core/context/contiguous_batch.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

// Upstream's exceptions are the reasons.
constexpr char kKeyError[] = "KeyError";
constexpr char kAssertionError[] = "AssertionError";

// Those that must have a position for each of the row's.
bool IsOfTokens(const std::string& name) {
  return name == "input_ids" || name == "inputs_embeds" || name == "labels" ||
         name == "position_ids" || name == "padding_mask" ||
         name == "loss_mask";
}

int64_t SequenceAxis(const std::string& name, const at::Tensor& tensor) {
  return name == "position_ids" && tensor.dim() == 3 ? 2 : 1;
}

// What stands in the positions behind the row.
at::Tensor Filler(const std::string& name, const at::Tensor& tensor,
                  int64_t axis, int64_t count,
                  const ContiguousOptions& options) {
  if (name == "position_ids") {
    const at::Tensor last = tensor.narrow(axis, tensor.size(axis) - 1, 1);
    return last + at::arange(1, count + 1, tensor.options());
  }
  std::vector<int64_t> shape = tensor.sizes().vec();
  shape[axis] = count;
  const double value = name == "input_ids"
                           ? static_cast<double>(options.padding_token_id)
                       : name == "labels"       ? -100
                       : name == "padding_mask" ? 1
                                                : 0;
  return at::full(shape, value, tensor.options());
}

// [B, S, ...]: ids, or embeddings instead.
absl::StatusOr<at::Tensor> TokensOf(const TensorBatch& batch) {
  const bool ids = batch.contains("input_ids");
  if (ids == batch.contains("inputs_embeds")) {
    return InvalidArgument(
        kAssertionError,
        absl::StrCat("batch has ", ids ? "both" : "neither",
                     " input_ids and inputs_embeds; must have one of them"));
  }
  const at::Tensor& primary = batch.at(ids ? "input_ids" : "inputs_embeds");
  if (primary.dim() >= 2 && primary.size(1) > 0) return primary;
  return InvalidArgument(kShapeMismatch,
                         "tokens have no shape [B, S] with an S of at least 1");
}

// The batch with what it must have, and without what it must not.
absl::StatusOr<TensorBatch> Completed(TensorBatch batch,
                                      const at::Tensor& tokens) {
  batch.erase("attention_mask");
  if (!batch.contains("labels")) {
    auto mask = batch.extract("loss_mask");
    if (mask.empty()) {
      return InvalidArgument(kKeyError,
                             "batch has neither labels nor loss_mask");
    }
    mask.key() = "labels";
    batch.insert(std::move(mask));
  }
  if (!batch.contains("position_ids")) {
    batch["position_ids"] =
        at::arange(tokens.size(1), tokens.options().dtype(at::kLong))
            .unsqueeze(0);
  }
  return batch;
}

}  // namespace

absl::StatusOr<ContiguousShard> ShardBatchContiguous(
    const TensorBatch& batch, ParityRank rank,
    const ContiguousOptions& options) {
  CF_RETURN_IF_ERROR(CheckParityRank(rank));
  CF_ASSIGN_OR_RETURN(const at::Tensor tokens, TokensOf(batch));
  const int64_t width = tokens.size(1);
  ContiguousShard shard{.original_seq_len = width, .padded_seq_len = width};
  if (rank.cp_size == 1) {
    shard.batch = batch;
    return shard;
  }
  CF_ASSIGN_OR_RETURN(shard.batch, Completed(batch, tokens));
  const int64_t multiple =
      rank.cp_size * std::max<int64_t>(options.pad_multiple, 2);
  shard.padded_seq_len = (width + multiple - 1) / multiple * multiple;
  const int64_t part = shard.padded_seq_len / rank.cp_size;
  for (auto& [name, tensor] : shard.batch) {
    const int64_t axis = SequenceAxis(name, tensor);
    if (tensor.dim() <= axis || tensor.size(axis) != width) {
      if (!IsOfTokens(name)) continue;
      return InvalidArgument(
          kShapeMismatch,
          absl::StrCat(name, " has ",
                       tensor.dim() > axis ? tensor.size(axis) : 0,
                       " positions; must have ", width));
    }
    const at::Tensor padded = at::cat(
        {tensor,
         Filler(name, tensor, axis, shard.padded_seq_len - width, options)},
        axis);
    tensor = padded.narrow(axis, rank.cp_rank * part, part).contiguous();
  }
  return shard;
}

}  // namespace cpfeed

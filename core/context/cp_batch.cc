#include "core/context/cp_batch.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/context/context_parallel.h"

namespace cpfeed {
namespace {

// Upstream's exceptions are the reasons.
constexpr char kKeyError[] = "KeyError";
constexpr char kAssertionError[] = "AssertionError";

absl::StatusOr<at::Tensor> TokensOf(const TensorBatch& batch,
                                    const std::string& name) {
  const auto found = batch.find(name);
  if (found != batch.end() && found->second.dim() >= 2) {
    return found->second;
  }
  return InvalidArgument(
      kKeyError, absl::StrCat("batch has no ", name, " of shape [B, S]"));
}

// Where the tokens are.
void AddPositions(const at::Tensor& tokens, TensorBatch& batch) {
  if (batch.contains("position_ids")) return;
  batch["position_ids"] =
      at::arange(tokens.size(1), tokens.options().dtype(at::kLong))
          .unsqueeze(0);
}

// 0.7: positions of one row are everybody's.
void ExpandPositions(int64_t rows, at::Tensor& positions) {
  if (positions.dim() != 2 || positions.size(0) != 1 || rows == 1) return;
  positions = positions.expand({rows, positions.size(1)}).clone();
}

// A tensor that is sharded, and along which dim.
struct CpBuffer {
  std::string name;
  at::Tensor* tensor = nullptr;
  int64_t dim = 1;
};

double FillOf(const std::string& name) {
  return name == "labels" ? -100 : name == "padding_mask" ? 1 : 0;
}

void Pad(const CpBuffer& buffer, int64_t multiple) {
  const int64_t width = buffer.tensor->size(buffer.dim);
  const int64_t missing = (multiple - width % multiple) % multiple;
  if (missing == 0) return;
  std::vector<int64_t> shape = buffer.tensor->sizes().vec();
  shape[buffer.dim] = missing;
  *buffer.tensor = at::cat({*buffer.tensor, at::full(shape, FillOf(buffer.name),
                                                     buffer.tensor->options())},
                           buffer.dim);
}

// The tokens of a row: ids, or embeddings instead.
absl::StatusOr<std::string> PrimaryOf(const TensorBatch& batch, Parity parity) {
  if (parity == Parity::kAutomodel04) return "input_ids";
  const bool ids = batch.contains("input_ids");
  if (ids != batch.contains("inputs_embeds")) {
    return ids ? "input_ids" : "inputs_embeds";
  }
  return InvalidArgument(
      kAssertionError,
      absl::StrCat("batch has ", ids ? "both" : "neither",
                   " input_ids and inputs_embeds; must have one of them"));
}

}  // namespace

absl::Status BuildPositionIds(TensorBatch& batch) {
  CF_ASSIGN_OR_RETURN(const at::Tensor tokens, TokensOf(batch, "input_ids"));
  AddPositions(tokens, batch);
  return absl::OkStatus();
}

absl::StatusOr<ScopeFactory> MakeCpBatchAndContext(
    std::shared_ptr<Communicator> group, TensorBatch& batch,
    at::Tensor* loss_mask, const CpBatchOptions& options) {
  if (group == nullptr || group->size() <= 1) return NoScope();
  CF_ASSIGN_OR_RETURN(const std::string primary,
                      PrimaryOf(batch, options.parity));
  CF_ASSIGN_OR_RETURN(const at::Tensor tokens, TokensOf(batch, primary));
  CF_RETURN_IF_ERROR(TokensOf(batch, "labels").status());
  batch.erase("attention_mask");
  AddPositions(tokens, batch);
  if (options.parity == Parity::kAutomodel07) {
    ExpandPositions(batch[primary].size(0), batch["position_ids"]);
  }
  std::vector<CpBuffer> buffers;
  for (const std::string& name :
       {primary, std::string("labels"), std::string("position_ids")}) {
    at::Tensor* const tensor = &batch[name];
    const bool has_components = name == "position_ids" && tensor->dim() == 3;
    buffers.push_back({name, tensor, has_components ? 2 : 1});
  }
  if (loss_mask != nullptr) buffers.push_back({"loss_mask", loss_mask});
  if (const auto found = batch.find("padding_mask"); found != batch.end()) {
    buffers.push_back({"padding_mask", &found->second});
  }
  ContextParallelOptions context;
  for (const CpBuffer& buffer : buffers) {
    if (options.parity != Parity::kAutomodel04) {
      Pad(buffer, int64_t{2} * group->size());
    }
    context.buffers.push_back(buffer.tensor);
    context.sequence_dims.push_back(buffer.dim);
    if (buffer.name != "position_ids") {
      context.no_restore.push_back(buffer.tensor);
    }
  }
  return ContextParallelContext(std::move(group), std::move(context));
}

}  // namespace cpfeed

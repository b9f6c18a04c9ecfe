#include "core/thd/parity_chunks.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/batch/parity.h"
#include "core/batch/token_shape.h"
#include "core/tensor/buffer.h"
#include "core/tensor/tensor.h"
#include "core/thd/parity_process.h"
#include "core/thd/parity_tensors.h"

namespace cpfeed {
namespace {

// The rows of chunk `i`: every tensor is cut on its first axis.
absl::StatusOr<ParityDict> SliceRows(const ParityDict& batch, int64_t begin,
                                     int64_t end) {
  ParityDict rows;
  for (const auto& [key, value] : batch.entries()) {
    const Tensor* const tensor = std::get_if<Tensor>(&value);
    if (tensor == nullptr) {
      rows.Set(key, value);
      continue;
    }
    CF_ASSIGN_OR_RETURN(Tensor slice, SliceAxis0(*tensor, begin, end));
    rows.Set(key, std::move(slice));
  }
  return rows;
}

// The tensors `key` of all chunks; where a chunk has none, its `fallback`.
absl::StatusOr<std::vector<Tensor>> Collect(
    const std::vector<ParityDict>& chunks, absl::string_view key,
    absl::string_view fallback) {
  std::vector<Tensor> tensors;
  for (const ParityDict& chunk : chunks) {
    const Tensor* const tensor =
        chunk.FindTensor(chunk.Has(key) ? key : fallback);
    if (tensor == nullptr) {
      return PythonError("TypeError",
                         absl::StrCat(key,
                                      " of a chunk is None; chunks "
                                      "cannot be stacked"));
    }
    tensors.push_back(*tensor);
  }
  return tensors;
}

// Stacks vectors of int32 after filling them up to one length.
absl::StatusOr<Tensor> FillAndStack(const std::vector<Tensor>& vectors,
                                    int64_t fill) {
  int64_t width = 0;
  for (const Tensor& vector : vectors) {
    width = std::max(width, vector.shape[0]);
  }
  if (width * static_cast<int64_t>(vectors.size()) >= kMaxTokens) {
    return InvalidArgument(
        kBatchTooLarge,
        absl::StrCat(vectors.size(), " chunks of up to ", width,
                     " boundaries; must be fewer than 2^31 in all"));
  }
  std::vector<Tensor> filled = vectors;
  for (Tensor& vector : filled) {
    std::vector<int32_t> tail(width - vector.shape[0],
                              static_cast<int32_t>(fill));
    vector.bytes.Append(Buffer::FromVector(std::move(tail)));
    vector.shape[0] = width;
  }
  return Stack(filled);
}

bool AnyHas(const std::vector<ParityDict>& chunks, absl::string_view key) {
  return std::any_of(chunks.begin(), chunks.end(),
                     [&](const ParityDict& chunk) { return chunk.Has(key); });
}

absl::StatusOr<ParityDict> StackChunks(const std::vector<ParityDict>& chunks,
                                       int64_t fill) {
  ParityDict stacked;
  for (const absl::string_view key :
       {"input_ids", "labels", "position_ids", "cu_seqlens", "padding_mask",
        "cu_seqlens_padded", "max_seqlen"}) {
    if (!AnyHas(chunks, key)) continue;
    const bool ragged = key == "cu_seqlens" || key == "cu_seqlens_padded";
    CF_ASSIGN_OR_RETURN(const std::vector<Tensor> tensors,
                        Collect(chunks, key, ragged ? "cu_seqlens" : key));
    CF_ASSIGN_OR_RETURN(Tensor tensor,
                        ragged ? FillAndStack(tensors, fill) : Stack(tensors));
    stacked.Set(key, std::move(tensor));
  }
  for (const auto& [key, value] : chunks[0].entries()) {
    if (std::holds_alternative<PlainValue>(value)) stacked.Set(key, value);
  }
  return stacked;
}

absl::Status CheckTensors(const ParityDict& batch) {
  for (const auto& [key, value] : batch.entries()) {
    if (const Tensor* const tensor = std::get_if<Tensor>(&value)) {
      CF_RETURN_IF_ERROR(ValidateTensor(key, *tensor));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ParityDict> RunSplitIntoThdChunks(const ParityDict& batch,
                                                 const ParityOptions& options) {
  CF_RETURN_IF_ERROR(CheckTensors(batch));
  if (options.num_chunks <= 1) return RunProcessInput(batch, options);
  if (!batch.Has("input_ids")) {
    return PythonError("KeyError", "input_ids is missing");
  }
  const Tensor* const ids = batch.FindTensor("input_ids");
  if (ids == nullptr) {
    return PythonError("AttributeError", "input_ids is no tensor");
  }
  if (ids->shape.empty()) {
    return PythonError("IndexError", "input_ids is a scalar; has no axis 0");
  }
  const int64_t rows = ids->shape[0] / options.num_chunks;
  std::vector<ParityDict> chunks;
  for (int64_t i = 0; i < options.num_chunks; ++i) {
    CF_ASSIGN_OR_RETURN(const ParityDict chunk,
                        SliceRows(batch, i * rows, (i + 1) * rows));
    absl::StatusOr<ParityDict> result = RunProcessInput(chunk, options);
    if (!result.ok()) {
      return Annotate(result.status(), absl::StrCat("chunk ", i));
    }
    chunks.push_back(*std::move(result));
  }
  return StackChunks(chunks, options.seq_lens_padding_value);
}

}  // namespace cpfeed

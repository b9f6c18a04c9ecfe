#include "core/thd/parity_rules.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/batch/packed_batch.h"
#include "core/batch/validate_batch.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace cpfeed {
namespace {

// The tensor `name`, or an empty one where there is none.
Tensor TensorOrEmpty(const ParityDict& batch, absl::string_view name) {
  const Tensor* const tensor = batch.FindTensor(name);
  return tensor == nullptr ? Tensor() : *tensor;
}

// The rows of a [B, P] length array without the entries that equal `sentinel`.
absl::StatusOr<RaggedLengths> FilterRows(absl::string_view name,
                                         const Tensor& lengths,
                                         int64_t sentinel) {
  if (lengths.empty()) {
    return InvalidArgument(
        kLengthsInconsistent,
        absl::StrCat(name,
                     " is missing; parity modes need both seq_lens and "
                     "seq_lens_padded"));
  }
  if (lengths.shape.size() != 2) {
    return InvalidArgument(
        kShapeMismatch,
        absl::StrCat(name, " has shape ", ShapeString(lengths.shape),
                     "; must be [B, P]"));
  }
  const absl::StatusOr<std::vector<int64_t>> values = lengths.ToInt64();
  if (!values.ok()) return Annotate(values.status(), name);
  RaggedLengths ragged{.values = {}, .row_splits = {0}};
  const int64_t width = lengths.shape[1];
  for (int64_t row = 0; row < lengths.shape[0]; ++row) {
    for (int64_t i = row * width; i < (row + 1) * width; ++i) {
      if ((*values)[i] != sentinel) ragged.values.push_back((*values)[i]);
    }
    ragged.row_splits.push_back(static_cast<int64_t>(ragged.values.size()));
  }
  return ragged;
}

}  // namespace

absl::Status CheckParityRules(const ParityDict& batch,
                              const ParityOptions& options) {
  PackedBatch native;
  native.input_ids = TensorOrEmpty(batch, "input_ids");
  native.labels = TensorOrEmpty(batch, "labels");
  native.position_ids = TensorOrEmpty(batch, "position_ids");
  if (options.num_chunks > 1 && native.position_ids.shape.size() == 3) {
    return InvalidArgument(
        kShapeMismatch,
        absl::StrCat("position_ids has shape ",
                     ShapeString(native.position_ids.shape),
                     "; must be [B, S] where num_chunks is above 1, as "
                     "upstream would cut its first axis"));
  }
  CF_ASSIGN_OR_RETURN(native.seq_lens,
                      FilterRows("seq_lens", TensorOrEmpty(batch, "seq_lens"),
                                 options.seq_lens_padding_value));
  CF_ASSIGN_OR_RETURN(
      native.seq_lens_padded,
      FilterRows("seq_lens_padded", TensorOrEmpty(batch, "seq_lens_padded"),
                 options.seq_lens_padding_value));
  return ValidateBatch(
             native, {.num_chunks = options.num_chunks,
                      .seq_lens_padding_value = options.seq_lens_padding_value})
      .status();
}

}  // namespace cpfeed

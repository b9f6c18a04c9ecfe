#include "client/cli/batch_json.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/cli/tensor_json.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/tensor/tensor.h"

namespace cpfeed {
namespace {

// What the output says of each rank besides the batch's own keys.
constexpr absl::string_view kOutputKeys[] = {"rank",
                                             "index",
                                             "source_index",
                                             "cu_seqlens",
                                             "segments",
                                             "cu_seqlens_padded",
                                             "num_label_tokens"};

absl::Status Malformed(absl::string_view path, absl::string_view what) {
  return InvalidArgument(kBatchMalformed, absl::StrCat(path, " ", what));
}

absl::StatusOr<RaggedLengths> FromTensor(const Tensor& tensor,
                                         absl::string_view name) {
  if (tensor.shape.size() != 2) {
    return InvalidArgument(
        kShapeMismatch,
        absl::StrCat(name, " has shape ", ShapeString(tensor.shape),
                     "; must be [B, P]"));
  }
  absl::StatusOr<std::vector<int64_t>> values = tensor.ToInt64();
  if (!values.ok()) return Annotate(values.status(), name);
  RaggedLengths lengths{.values = *std::move(values), .row_splits = {0}};
  for (int64_t row = 1; row <= tensor.shape[0]; ++row) {
    lengths.row_splits.push_back(row * tensor.shape[1]);
  }
  return lengths;
}

// The axis behind the first one at which `shape` has [B, S]; 1 where there is
// none, for validation to complain about.
int InferSequenceAxis(const Shape& shape, const Shape& ids_shape) {
  if (ids_shape.size() < 2) return 1;
  const auto found = std::search(shape.begin(), shape.end(), ids_shape.begin(),
                                 ids_shape.begin() + 2);
  if (found == shape.end()) return 1;
  return static_cast<int>(found - shape.begin()) + 1;
}

absl::StatusOr<TokenTensor> ExtraFromJson(const std::string& key,
                                          const Json& value,
                                          const Shape& ids_shape) {
  TokenTensor extra{.name = key};
  CF_ASSIGN_OR_RETURN(extra.tensor, TensorFromJson(value, key));
  extra.sequence_axis = InferSequenceAxis(extra.tensor.shape, ids_shape);
  if (value.is_object() && value.contains("sequence_axis")) {
    const std::optional<int64_t> axis = ExactInteger(value["sequence_axis"]);
    if (!axis || *axis != static_cast<int>(*axis)) {
      return Malformed(
          key, absl::StrCat("has sequence_axis ", value["sequence_axis"].dump(),
                            "; must be an axis"));
    }
    extra.sequence_axis = static_cast<int>(*axis);
  }
  return extra;
}

// The tensor of `batch` that `key` names, or null.
Tensor* FieldOf(const std::string& key, PackedBatch& batch) {
  if (key == "input_ids") return &batch.input_ids;
  if (key == "labels") return &batch.labels;
  if (key == "position_ids") return &batch.position_ids;
  if (key == "attention_mask") return &batch.attention_mask;
  if (key == "padding_mask") return &batch.padding_mask;
  return nullptr;
}

absl::Status ReadField(const std::string& key, const Json& value,
                       JsonBatch& out) {
  if (Tensor* const field = FieldOf(key, out.batch)) {
    CF_ASSIGN_OR_RETURN(*field, TensorFromJson(value, key));
  } else if (key == "seq_lens") {
    CF_ASSIGN_OR_RETURN(out.batch.seq_lens, RaggedLengthsFromJson(value, key));
  } else if (key == "seq_lens_padded") {
    CF_ASSIGN_OR_RETURN(out.batch.seq_lens_padded,
                        RaggedLengthsFromJson(value, key));
  } else if (std::find(std::begin(kOutputKeys), std::end(kOutputKeys), key) !=
             std::end(kOutputKeys)) {
    return Malformed(key, "is a key of the output; must have another name");
  } else if (!IsFlatTensor(value) && !IsNestedTensor(value)) {
    out.plain[key] = value;
  }
  return absl::OkStatus();
}

bool IsExtra(const std::string& key, const Json& value, PackedBatch& batch) {
  return FieldOf(key, batch) == nullptr && key != "seq_lens" &&
         key != "seq_lens_padded" &&
         (IsFlatTensor(value) || IsNestedTensor(value));
}

}  // namespace

absl::StatusOr<RaggedLengths> RaggedLengthsFromJson(const Json& value,
                                                    absl::string_view name) {
  if (IsFlatTensor(value)) {
    CF_ASSIGN_OR_RETURN(const Tensor tensor, TensorFromJson(value, name));
    return FromTensor(tensor, name);
  }
  if (!value.is_array()) {
    return Malformed(name, absl::StrCat("is ", value.type_name(),
                                        "; must be a list of lists"));
  }
  RaggedLengths lengths{.values = {}, .row_splits = {0}};
  for (const Json& row : value) {
    const std::string path =
        absl::StrCat(name, "[", lengths.row_splits.size() - 1, "]");
    if (!row.is_array()) {
      return Malformed(path, absl::StrCat("is ", row.type_name(),
                                          "; must be a list of lengths"));
    }
    for (const Json& entry : row) {
      const std::optional<int64_t> length = ExactInteger(entry);
      if (!length || entry.is_boolean()) {
        return Malformed(
            absl::StrCat(path, "[",
                         lengths.values.size() - lengths.row_splits.back(),
                         "]"),
            absl::StrCat("is ", entry.dump(), "; must be an integer"));
      }
      lengths.values.push_back(*length);
    }
    lengths.row_splits.push_back(static_cast<int64_t>(lengths.values.size()));
  }
  return lengths;
}

absl::StatusOr<JsonBatch> BatchFromJson(const Json& value) {
  if (!value.is_object()) {
    return Malformed("input", absl::StrCat("is ", value.type_name(),
                                           "; must be an object of lists"));
  }
  JsonBatch out;
  for (const auto& [key, field] : value.items()) {
    if (field.is_null()) continue;
    CF_RETURN_IF_ERROR(ReadField(key, field, out));
  }
  // When input_ids are known, as their shape tells the axes of the others.
  for (const auto& [key, field] : value.items()) {
    if (field.is_null() || !IsExtra(key, field, out.batch)) continue;
    CF_ASSIGN_OR_RETURN(TokenTensor extra,
                        ExtraFromJson(key, field, out.batch.input_ids.shape));
    out.batch.extras.push_back(std::move(extra));
  }
  return out;
}

}  // namespace cpfeed

#include "core/thd/parity_process.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/batch/parity.h"
#include "core/tensor/buffer.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"
#include "core/thd/parity_lengths.h"
#include "core/thd/parity_tensors.h"

namespace cpfeed {
namespace {

constexpr absl::string_view kRequiredKeys[] = {
    "input_ids", "labels", "position_ids", "seq_lens", "seq_lens_padded"};

// The tensor `name`, which is in `batch`; `attribute` is what upstream asks of
// it first.
absl::StatusOr<Tensor> TensorWith(const ParityDict& batch,
                                  absl::string_view name,
                                  absl::string_view attribute) {
  const Tensor* const tensor = batch.FindTensor(name);
  if (tensor != nullptr) return *tensor;
  return PythonError(
      "AttributeError",
      absl::StrCat(name, " is no tensor: it has no attribute ", attribute));
}

// B * S.
absl::StatusOr<int64_t> NumTokens(const Tensor& input_ids) {
  if (input_ids.shape.size() < 2) {
    return PythonError("IndexError", absl::StrCat("input_ids has shape ",
                                                  ShapeString(input_ids.shape),
                                                  "; there is no axis 1"));
  }
  if (input_ids.bytes.size() == 0 && input_ids.shape.size() > 2) {
    return InvalidArgument(
        kShapeMismatch,
        absl::StrCat("input_ids has shape ", ShapeString(input_ids.shape),
                     "; every dimension must be at least 1"));
  }
  return NumElements({input_ids.shape[0], input_ids.shape[1]});
}

bool IsNone(const ParityValue& value) {
  const auto* const plain = std::get_if<PlainValue>(&value);
  return plain != nullptr && plain->is_none();
}

absl::StatusOr<ParityValue> FlattenPositions(const ParityDict& batch,
                                             Parity parity) {
  if (IsNone(*batch.Find("position_ids"))) return PlainValue{"null"};
  CF_ASSIGN_OR_RETURN(Tensor positions,
                      TensorWith(batch, "position_ids", "reshape"));
  CF_ASSIGN_OR_RETURN(const int64_t elements, NumElements(positions.shape));
  if (parity == Parity::kAutomodel07 && positions.shape.size() == 3) {
    const int64_t num_rope = positions.shape[0];
    if (num_rope == 0) {
      return PythonError("RuntimeError",
                         "position_ids of 0 components cannot be flattened");
    }
    positions.shape = {num_rope, 1, elements / num_rope};
  } else {
    positions.shape = {elements};
  }
  return positions;
}

// The lengths of `name` in stream order without sentinels; nothing for None.
absl::StatusOr<std::optional<std::vector<int64_t>>> ValidLengths(
    const ParityDict& batch, absl::string_view name, int64_t sentinel) {
  if (IsNone(*batch.Find(name))) return std::nullopt;
  CF_ASSIGN_OR_RETURN(const Tensor tensor, TensorWith(batch, name, "reshape"));
  absl::StatusOr<std::vector<int64_t>> lengths = tensor.ToInt64();
  if (!lengths.ok()) return Annotate(lengths.status(), name);
  lengths->erase(std::remove(lengths->begin(), lengths->end(), sentinel),
                 lengths->end());
  return std::optional(*std::move(lengths));
}

Tensor Vector32(std::vector<int32_t> values) {
  const int64_t size = static_cast<int64_t>(values.size());
  return Tensor::FromVector({size}, std::move(values));
}

Tensor MaskTensor(int64_t num_tokens, const std::vector<int64_t>& real,
                  const std::vector<int64_t>& padded) {
  return Tensor{
      .dtype = DType::kBool,
      .shape = {num_tokens},
      .bytes = Buffer::FromVector(LayoutMask(num_tokens, real, padded))};
}

// Upstream's way without seq_lens: the pad id must fill a tail and nothing
// else.
absl::StatusOr<Tensor> MaskFromTail(const Tensor& flat_ids,
                                    int64_t padding_token_id) {
  const Tensor mask = EqualTo(flat_ids, padding_token_id);
  CF_ASSIGN_OR_RETURN(const std::vector<int64_t> padding, mask.ToInt64());
  if (mask.shape.size() != 1 ||
      !std::is_sorted(padding.begin(), padding.end())) {
    return PythonError("ValueError",
                       absl::StrCat("padding_token_id ", padding_token_id,
                                    " is content too; must fill the tail "
                                    "alone, or seq_lens must be given"));
  }
  return mask;
}

Tensor Scalar32(int32_t value) {
  return Tensor{.dtype = DType::kInt32,
                .shape = {},
                .bytes = Buffer::FromVector(std::vector<int32_t>{value})};
}

absl::Status AddBoundaries04(const std::optional<std::vector<int64_t>>& real,
                             const std::optional<std::vector<int64_t>>& padded,
                             ParityDict& result) {
  if (!real || !padded) {
    return PythonError("UnboundLocalError",
                       "seq_lens or seq_lens_padded is None");
  }
  result.Set("cu_seqlens", Vector32(PrefixSums32(*padded)));
  return absl::OkStatus();
}

absl::Status AddBoundaries07(const std::optional<std::vector<int64_t>>& real,
                             const std::optional<std::vector<int64_t>>& padded,
                             int64_t num_tokens, const ParityOptions& options,
                             ParityDict& result) {
  if (!real) {
    result.Set("cu_seqlens", PlainValue{"null"});
    CF_ASSIGN_OR_RETURN(Tensor mask,
                        MaskFromTail(*result.FindTensor("input_ids"),
                                     options.padding_token_id));
    result.Set("padding_mask", std::move(mask));
    return absl::OkStatus();
  }
  if (real->empty()) {
    return PythonError("IndexError",
                       "there is no sequence; the mask has no first slot");
  }
  const std::vector<int64_t>& slots = padded ? *padded : *real;
  std::vector<int32_t> cu_seqlens = PrefixSums32(*real);
  std::vector<int32_t> cu_seqlens_padded = PrefixSums32(slots);
  if (padded) AbsorbTail(num_tokens, cu_seqlens, cu_seqlens_padded);
  result.Set("padding_mask", MaskTensor(num_tokens, *real, slots));
  result.Set("max_seqlen", Scalar32(WidestStep(cu_seqlens)));
  if (padded && cu_seqlens_padded != cu_seqlens) {
    result.Set("cu_seqlens_padded", Vector32(std::move(cu_seqlens_padded)));
  }
  result.Set("cu_seqlens", Vector32(std::move(cu_seqlens)));
  return absl::OkStatus();
}

// Keys that the conversion does not know.
void PassOn(const ParityDict& batch, Parity parity, ParityDict& result) {
  for (const auto& [key, value] : batch.entries()) {
    const bool passes = parity == Parity::kAutomodel07
                            ? key != "seq_lens" && key != "seq_lens_padded"
                            : !std::holds_alternative<Tensor>(value);
    if (passes && !result.Has(key)) result.Set(key, value);
  }
}

}  // namespace

absl::StatusOr<ParityDict> RunProcessInput(const ParityDict& batch,
                                           const ParityOptions& options) {
  for (const absl::string_view key : kRequiredKeys) {
    if (!batch.Has(key))
      return PythonError("KeyError", absl::StrCat(key, " is missing"));
  }
  CF_ASSIGN_OR_RETURN(const Tensor ids,
                      TensorWith(batch, "input_ids", "shape"));
  CF_ASSIGN_OR_RETURN(const int64_t num_tokens, NumTokens(ids));
  ParityDict result;
  CF_ASSIGN_OR_RETURN(ParityValue positions,
                      FlattenPositions(batch, options.parity));
  CF_ASSIGN_OR_RETURN(Tensor flat_ids, FlattenTokens(ids, num_tokens));
  result.Set("input_ids", flat_ids);
  result.Set("position_ids", std::move(positions));
  CF_ASSIGN_OR_RETURN(const Tensor labels,
                      TensorWith(batch, "labels", "reshape"));
  CF_ASSIGN_OR_RETURN(Tensor flat_labels, FlattenTokens(labels, num_tokens));
  result.Set("labels", std::move(flat_labels));
  const int64_t sentinel = options.seq_lens_padding_value;
  CF_ASSIGN_OR_RETURN(const auto real,
                      ValidLengths(batch, "seq_lens", sentinel));
  CF_ASSIGN_OR_RETURN(const auto padded,
                      ValidLengths(batch, "seq_lens_padded", sentinel));
  if (options.parity == Parity::kAutomodel04) {
    CF_RETURN_IF_ERROR(AddBoundaries04(real, padded, result));
    result.Set("padding_mask", EqualTo(flat_ids, options.padding_token_id));
  } else {
    CF_RETURN_IF_ERROR(
        AddBoundaries07(real, padded, num_tokens, options, result));
  }
  PassOn(batch, options.parity, result);
  return result;
}

}  // namespace cpfeed

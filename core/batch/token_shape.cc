#include "core/batch/token_shape.h"

#include <algorithm>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace cpfeed {
namespace {

// Names of what a batch or a shard holds besides extra tensors.
constexpr absl::string_view kReservedNames[] = {
    "attention_mask",
    "cu_seqlens",
    "cu_seqlens_padded",
    "index",
    "input_ids",
    "labels",
    "local_cu_seqlens",
    "local_cu_seqlens_padded",
    "max_seqlen",
    "max_seqlen_padded",
    "num_chunks",
    "num_label_tokens",
    "padding_mask",
    "position_ids",
    "segments",
    "seq_lens",
    "seq_lens_padded",
    "sequences_per_row",
    "sequences_per_row_padded",
    "source_index",
    "source_lengths",
};

absl::Status CheckNoEmptyAxis(absl::string_view name, const Tensor& tensor) {
  for (const int64_t dimension : tensor.shape) {
    if (dimension != 0) continue;
    return InvalidArgument(
        kShapeMismatch,
        absl::StrCat(name, " has shape ", ShapeString(tensor.shape),
                     "; every dimension must be at least 1"));
  }
  return absl::OkStatus();
}

absl::Status WrongDType(absl::string_view name, const Tensor& tensor,
                        absl::string_view wanted) {
  return InvalidArgument(kBatchMalformed, absl::StrCat(name, " has dtype ",
                                                       DTypeName(tensor.dtype),
                                                       "; must be ", wanted));
}

absl::Status WrongShape(absl::string_view name, const Tensor& tensor,
                        absl::string_view wanted) {
  return InvalidArgument(kShapeMismatch, absl::StrCat(name, " has shape ",
                                                      ShapeString(tensor.shape),
                                                      "; must be ", wanted));
}

// "[2, 8] (the token axes of input_ids)".
std::string TokenAxes(const TokenShape& shape) {
  return absl::StrCat("[", shape.num_rows, ", ", shape.row_width,
                      "], the token axes of input_ids");
}

bool IsIndexType(DType dtype) {
  return dtype == DType::kInt32 || dtype == DType::kInt64;
}

absl::StatusOr<TokenShape> CheckInputIds(const Tensor& ids) {
  if (ids.empty()) {
    return InvalidArgument(kBatchMalformed,
                           "input_ids are missing; a batch must have them");
  }
  CF_RETURN_IF_ERROR(ValidateTensor("input_ids", ids));
  const bool embeddings = IsFloat(ids.dtype);
  if (!embeddings && !IsIndexType(ids.dtype)) {
    return WrongDType("input_ids", ids, "int32, int64 or a float");
  }
  if (ids.shape.size() != (embeddings ? 3 : 2)) {
    return WrongShape("input_ids", ids,
                      embeddings ? "[B, S, H] where the dtype is a float"
                                 : "[B, S] where the dtype is an integer");
  }
  const TokenShape shape{.num_rows = ids.shape[0], .row_width = ids.shape[1]};
  // ValidateTensor has shown that no product of the dimensions overflows,
  // unless one of them is 0.
  CF_RETURN_IF_ERROR(CheckNoEmptyAxis("input_ids", ids));
  if (shape.num_tokens() >= kMaxTokens) {
    return InvalidArgument(
        kBatchTooLarge,
        absl::StrCat("input_ids have ", shape.num_tokens(),
                     " tokens; must be fewer than 2^31 = ", kMaxTokens));
  }
  return shape;
}

// Whether `axis` and the axis behind it are the token axes.
bool HasTokenAxes(const Tensor& tensor, int axis, const TokenShape& shape) {
  return axis >= 0 && axis + 1 < static_cast<int>(tensor.shape.size()) &&
         tensor.shape[axis] == shape.num_rows &&
         tensor.shape[axis + 1] == shape.row_width;
}

absl::Status CheckLabels(const Tensor& labels, const TokenShape& shape) {
  if (labels.empty()) {
    return InvalidArgument(kBatchMalformed,
                           "labels are missing; a batch must have them");
  }
  CF_RETURN_IF_ERROR(ValidateTensor("labels", labels));
  if (!IsInteger(labels.dtype) || labels.dtype == DType::kUint8) {
    return WrongDType("labels", labels, "a signed integer");
  }
  if (labels.shape.size() != 2 || !HasTokenAxes(labels, 0, shape)) {
    return WrongShape("labels", labels, TokenAxes(shape));
  }
  return absl::OkStatus();
}

absl::Status CheckPositionIds(const Tensor& positions,
                              const TokenShape& shape) {
  if (positions.empty()) return absl::OkStatus();
  CF_RETURN_IF_ERROR(ValidateTensor("position_ids", positions));
  CF_RETURN_IF_ERROR(CheckNoEmptyAxis("position_ids", positions));
  if (!IsIndexType(positions.dtype)) {
    return WrongDType("position_ids", positions, "int32 or int64");
  }
  const int rank = static_cast<int>(positions.shape.size());
  if ((rank != 2 && rank != 3) || !HasTokenAxes(positions, rank - 2, shape)) {
    return WrongShape(
        "position_ids", positions,
        absl::StrCat(TokenAxes(shape), ", or the same behind one axis n_rope"));
  }
  return absl::OkStatus();
}

absl::Status CheckMaskDType(absl::string_view name, const Tensor& mask) {
  if (mask.dtype == DType::kBool || IsInteger(mask.dtype)) {
    return absl::OkStatus();
  }
  return InvalidArgument(
      kMaskNotSupported,
      absl::StrCat(name, " has dtype ", DTypeName(mask.dtype),
                   "; must be bool or an integer"));
}

absl::Status CheckAttentionMask(const Tensor& mask, const TokenShape& shape) {
  if (mask.empty()) return absl::OkStatus();
  CF_RETURN_IF_ERROR(ValidateTensor("attention_mask", mask));
  const int64_t b = shape.num_rows;
  const int64_t s = shape.row_width;
  const bool fits = mask.shape == Shape{b, s} || mask.shape == Shape{b, s, s} ||
                    mask.shape == Shape{b, 1, s, s};
  if (!fits) {
    return WrongShape(
        "attention_mask", mask,
        absl::StrCat("[B, S], [B, S, S] or [B, 1, S, S] with B = ", b,
                     " and S = ", s));
  }
  return CheckMaskDType("attention_mask", mask);
}

absl::Status CheckPaddingMask(const Tensor& mask, const TokenShape& shape) {
  if (mask.empty()) return absl::OkStatus();
  CF_RETURN_IF_ERROR(ValidateTensor("padding_mask", mask));
  if (mask.shape.size() != 2 || !HasTokenAxes(mask, 0, shape)) {
    return WrongShape("padding_mask", mask, TokenAxes(shape));
  }
  return CheckMaskDType("padding_mask", mask);
}

absl::Status CheckExtra(const TokenTensor& extra, const TokenShape& shape) {
  CF_RETURN_IF_ERROR(ValidateTensor(extra.name, extra.tensor));
  CF_RETURN_IF_ERROR(CheckNoEmptyAxis(extra.name, extra.tensor));
  const int rank = static_cast<int>(extra.tensor.shape.size());
  if (extra.sequence_axis < 1 || extra.sequence_axis >= rank) {
    return InvalidArgument(
        kShapeMismatch,
        absl::StrCat(extra.name, " has sequence axis ", extra.sequence_axis,
                     "; must be in [1, ", rank, "), behind its row axis"));
  }
  if (!HasTokenAxes(extra.tensor, extra.sequence_axis - 1, shape)) {
    return WrongShape(
        extra.name, extra.tensor,
        absl::StrCat(TokenAxes(shape), ", at axes ", extra.sequence_axis - 1,
                     " and ", extra.sequence_axis));
  }
  return absl::OkStatus();
}

absl::Status CheckExtras(const PackedBatch& batch, const TokenShape& shape) {
  absl::flat_hash_set<absl::string_view> names;
  for (const TokenTensor& extra : batch.extras) {
    if (extra.name.empty()) {
      return InvalidArgument(kBatchMalformed,
                             "an extra tensor has no name; must have one");
    }
    if (IsReservedTensorName(extra.name)) {
      return InvalidArgument(
          kBatchMalformed,
          absl::StrCat("an extra tensor has the name \"", extra.name,
                       "\", which is reserved; must be another"));
    }
    if (!names.insert(extra.name).second) {
      return InvalidArgument(kBatchMalformed,
                             absl::StrCat("two extra tensors have the name \"",
                                          extra.name, "\"; must be one"));
    }
    CF_RETURN_IF_ERROR(CheckExtra(extra, shape));
  }
  return absl::OkStatus();
}

}  // namespace

bool IsReservedTensorName(absl::string_view name) {
  return std::find(std::begin(kReservedNames), std::end(kReservedNames),
                   name) != std::end(kReservedNames);
}

absl::StatusOr<TokenShape> CheckTokenShapes(const PackedBatch& batch) {
  CF_ASSIGN_OR_RETURN(const TokenShape shape, CheckInputIds(batch.input_ids));
  CF_RETURN_IF_ERROR(CheckLabels(batch.labels, shape));
  CF_RETURN_IF_ERROR(CheckPositionIds(batch.position_ids, shape));
  CF_RETURN_IF_ERROR(CheckAttentionMask(batch.attention_mask, shape));
  CF_RETURN_IF_ERROR(CheckPaddingMask(batch.padding_mask, shape));
  CF_RETURN_IF_ERROR(CheckExtras(batch, shape));
  return shape;
}

}  // namespace cpfeed

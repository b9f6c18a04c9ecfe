#include "core/batch/batch_masks.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/tensor/dtype.h"
#include "core/tensor/element_cursor.h"

namespace cpfeed {
namespace {

// For each row how many elements equal `token` before the first that does not;
// all behind it must be padding (1 - token).
absl::StatusOr<std::vector<int64_t>> LeadingTokens(absl::string_view name,
                                                   const Tensor& mask,
                                                   int64_t token,
                                                   const TokenShape& shape) {
  std::vector<int64_t> lengths;
  lengths.reserve(shape.num_rows);
  ElementCursor cursor(mask.bytes, ItemSize(mask.dtype));
  for (int64_t row = 0; row < shape.num_rows; ++row) {
    const int64_t real = cursor.SkipEqual(shape.row_width, token);
    const int64_t padding = cursor.SkipEqual(shape.row_width - real, 1 - token);
    if (real + padding < shape.row_width) {
      const int64_t value = cursor.Value();
      return InvalidArgument(
          kMaskNotSupported,
          absl::StrCat("row ", row, ": ", name, " is ", value, " at position ",
                       real + padding,
                       value == token ? ", a token behind padding; must be "
                                      : "; must be ",
                       value == token ? absl::StrCat(1 - token) : "0 or 1",
                       value == token
                           ? absl::StrCat(" from position ", real, " on")
                           : ""));
    }
    lengths.push_back(real);
  }
  return lengths;
}

absl::Status CheckMasksAgree(const std::vector<int64_t>& by_attention,
                             const std::vector<int64_t>& by_padding) {
  for (size_t row = 0; row < by_attention.size(); ++row) {
    if (by_attention[row] == by_padding[row]) continue;
    return InvalidArgument(
        kLengthsInconsistent,
        absl::StrCat("row ", row, ": attention_mask has ", by_attention[row],
                     " tokens and padding_mask has ", by_padding[row],
                     "; must be equally many"));
  }
  return absl::OkStatus();
}

absl::Status PaddingMaskDiffers(int64_t row, int64_t sequence, int64_t begin,
                                int64_t real, int64_t position, int64_t value) {
  return InvalidArgument(
      kLengthsInconsistent,
      absl::StrCat("row ", row, ", sequence ", sequence, ": padding_mask is ",
                   value, " at position ", position, "; must be ",
                   position - begin < real ? 0 : 1, ", as the slot begins at ",
                   begin, " and has ", real, " tokens"));
}

absl::Status CheckPaddingMask(const Tensor& mask,
                              const PackedLengths& lengths) {
  ElementCursor cursor(mask.bytes, ItemSize(mask.dtype));
  for (int64_t row = 0; row < lengths.num_rows(); ++row) {
    int64_t begin = 0;
    for (int64_t i = lengths.row_splits[row]; i < lengths.row_splits[row + 1];
         ++i) {
      const int64_t real = lengths.real[i];
      int64_t equal = cursor.SkipEqual(real, 0);
      if (equal == real) {
        equal += cursor.SkipEqual(lengths.padded[i] - real, 1);
      }
      if (equal < lengths.padded[i]) {
        return PaddingMaskDiffers(row, i - lengths.row_splits[row], begin, real,
                                  begin + equal, cursor.Value());
      }
      begin += lengths.padded[i];
    }
  }
  return absl::OkStatus();
}

absl::Status DenseMaskDiffers(int64_t row, int64_t sequence, int64_t query,
                              int64_t key, int64_t value) {
  return InvalidArgument(
      kMaskNotSupported,
      absl::StrCat("row ", row, ", sequence ", sequence, ": attention_mask is ",
                   value, " at query ", query, ", key ", key, "; must be ",
                   value == 1 ? 0 : 1,
                   " (only masks that are causal inside each sequence)"));
}

// The mask rows of one sequence, whose slot begins at `begin` in its row.
absl::Status CheckCausal(int64_t row, int64_t sequence, int64_t begin,
                         int64_t real, int64_t row_width,
                         ElementCursor& cursor) {
  for (int64_t query = begin; query < begin + real; ++query) {
    const std::pair<int64_t, int64_t> runs[] = {
        {begin, 0}, {query + 1 - begin, 1}, {row_width - query - 1, 0}};
    int64_t key = 0;
    for (const auto& [length, value] : runs) {
      const int64_t equal = cursor.SkipEqual(length, value);
      key += equal;
      if (equal < length) {
        return DenseMaskDiffers(row, sequence, query, key, cursor.Value());
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckDenseMask(const Tensor& mask, int64_t row_width,
                            const PackedLengths& lengths) {
  ElementCursor cursor(mask.bytes, ItemSize(mask.dtype));
  for (int64_t row = 0; row < lengths.num_rows(); ++row) {
    int64_t begin = 0;
    for (int64_t i = lengths.row_splits[row]; i < lengths.row_splits[row + 1];
         ++i) {
      CF_RETURN_IF_ERROR(CheckCausal(row, i - lengths.row_splits[row], begin,
                                     lengths.real[i], row_width, cursor));
      cursor.Skip((lengths.padded[i] - lengths.real[i]) * row_width);
      begin += lengths.padded[i];
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PackedLengths> LengthsFromMasks(const PackedBatch& batch,
                                               const TokenShape& shape) {
  PackedLengths lengths;
  lengths.real.assign(shape.num_rows, shape.row_width);
  lengths.padded = lengths.real;
  for (int64_t row = 0; row <= shape.num_rows; ++row) {
    lengths.row_splits.push_back(row);
  }
  const bool has_attention_mask = batch.attention_mask.shape.size() == 2;
  if (has_attention_mask) {
    CF_ASSIGN_OR_RETURN(
        lengths.real,
        LeadingTokens("attention_mask", batch.attention_mask, 1, shape));
  }
  if (!batch.padding_mask.empty()) {
    CF_ASSIGN_OR_RETURN(
        std::vector<int64_t> real,
        LeadingTokens("padding_mask", batch.padding_mask, 0, shape));
    if (has_attention_mask) {
      CF_RETURN_IF_ERROR(CheckMasksAgree(lengths.real, real));
    }
    lengths.real = std::move(real);
  }
  return lengths;
}

absl::Status CheckMasks(const PackedBatch& batch, const TokenShape& shape,
                        const PackedLengths& lengths) {
  if (!batch.padding_mask.empty() && batch.seq_lens) {
    CF_RETURN_IF_ERROR(CheckPaddingMask(batch.padding_mask, lengths));
  }
  if (batch.attention_mask.shape.size() > 2) {
    return CheckDenseMask(batch.attention_mask, shape.row_width, lengths);
  }
  return absl::OkStatus();
}

}  // namespace cpfeed

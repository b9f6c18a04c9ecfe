#include "core/batch/validate_batch.h"

#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/batch/auto_pad.h"
#include "core/batch/batch_masks.h"
#include "core/batch/row_lengths.h"
#include "core/tensor/dtype.h"

namespace cpfeed {
namespace {

absl::Status CheckOptions(const BatchOptions& options) {
  if (options.num_chunks < 1) {
    return InvalidArgument(kBadOption,
                           absl::StrCat("num_chunks is ", options.num_chunks,
                                        "; must be at least 1"));
  }
  if (options.seq_lens_padding_value >= 0) {
    return InvalidArgument(kBadOption,
                           absl::StrCat("seq_lens_padding_value is ",
                                        options.seq_lens_padding_value,
                                        "; must be negative, as no length is"));
  }
  if (options.auto_pad && options.pad_rule.multiple < 1) {
    return InvalidArgument(kBadOption, absl::StrCat("pad_rule.multiple is ",
                                                    options.pad_rule.multiple,
                                                    "; must be at least 1"));
  }
  return absl::OkStatus();
}

absl::Status CheckNumChunks(int64_t num_chunks, int64_t num_rows) {
  if (num_rows % num_chunks == 0) return absl::OkStatus();
  return InvalidArgument(
      kBadOption, absl::StrCat("num_chunks is ", num_chunks, "; must ",
                               num_chunks > num_rows ? "not exceed" : "divide",
                               " the number of rows ", num_rows));
}

absl::Status CheckPaddingTokenId(const BatchOptions& options, DType ids) {
  const int64_t id = options.padding_token_id;
  if (!options.auto_pad || ids != DType::kInt32 ||
      id == static_cast<int32_t>(id)) {
    return absl::OkStatus();
  }
  return InvalidArgument(
      kBadOption,
      absl::StrCat("padding_token_id is ", id,
                   "; must fit int32, the dtype of input_ids (at most ",
                   std::numeric_limits<int32_t>::max(), ")"));
}

absl::StatusOr<PackedLengths> ReadLengths(const PackedBatch& batch,
                                          const BatchOptions& options,
                                          const TokenShape& shape) {
  if (batch.seq_lens) return ReadRowLengths(batch, options, shape);
  if (batch.seq_lens_padded) {
    return InvalidArgument(
        kLengthsInconsistent,
        "seq_lens_padded is given and seq_lens is not; must be both or "
        "seq_lens alone");
  }
  return LengthsFromMasks(batch, shape);
}

}  // namespace

absl::StatusOr<BatchDescription> ValidateBatch(const PackedBatch& batch,
                                               const BatchOptions& options) {
  CF_RETURN_IF_ERROR(CheckOptions(options));
  BatchDescription description;
  CF_ASSIGN_OR_RETURN(description.shape, CheckTokenShapes(batch));
  const TokenShape& shape = description.shape;
  CF_RETURN_IF_ERROR(CheckNumChunks(options.num_chunks, shape.num_rows));
  CF_RETURN_IF_ERROR(CheckPaddingTokenId(options, batch.input_ids.dtype));
  CF_ASSIGN_OR_RETURN(description.lengths, ReadLengths(batch, options, shape));
  CF_RETURN_IF_ERROR(CheckMasks(batch, shape, description.lengths));
  description.source = description.lengths.padded;
  if (options.auto_pad) {
    CF_RETURN_IF_ERROR(AutoPad(options.pad_rule,
                               shape.num_rows / options.num_chunks,
                               description.lengths));
  }
  return description;
}

}  // namespace cpfeed

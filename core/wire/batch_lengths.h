// The lengths of sequences among the tensors of a batch.
//
// "seq_lens" and "seq_lens_padded" are either [rows, most sequences of a row],
// with filler at the end of rows, or [all sequences] beside
// "sequences_per_row" [rows] (and "sequences_per_row_padded" where the slots
// have other counts: a mistake, but ValidateBatch's to tell).

#ifndef CPFEED_CORE_WIRE_BATCH_LENGTHS_H_
#define CPFEED_CORE_WIRE_BATCH_LENGTHS_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/batch/packed_batch.h"
#include "core/tensor/buffer.h"
#include "core/tensor/tensor.h"
#include "core/wire/tensor_codec.h"

namespace cpfeed {

// Whether `name` is one of the four.
bool IsLengthTensor(absl::string_view name);

// Reads the lengths among `tensors`, all of a batch, into `batch`. Memory is
// taken for at most one length for each 4 bytes of all tensors.
//
// Errors:
//   INVALID_ARGUMENT  The dtype is a float; a shape is none of the above;
//                     counts are negative, do not sum to the lengths, or belong
//                     to none (reason LENGTHS_INCONSISTENT); lengths are too
//                     many (reason BATCH_TOO_LARGE).
absl::Status TakeLengths(const std::vector<NamedTensor>& tensors,
                         PackedBatch& batch);

// Adds the tensors of the batch's lengths, int64, to `specs` and `payload`.
void EncodeLengths(const PackedBatch& batch, TensorSpecs& specs,
                   Buffer& payload);

}  // namespace cpfeed

#endif  // CPFEED_CORE_WIRE_BATCH_LENGTHS_H_

// Says whether a batch is one, and what is in it.

#ifndef CPFEED_CORE_BATCH_VALIDATE_BATCH_H_
#define CPFEED_CORE_BATCH_VALIDATE_BATCH_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/batch/packed_batch.h"
#include "core/batch/packed_lengths.h"
#include "core/batch/token_shape.h"

namespace cpfeed {

// A valid batch in numbers.
struct BatchDescription {
  TokenShape shape;
  // All rows, after auto_fill and auto_pad.
  PackedLengths lengths;
  // [num_sequences]: how many positions of each slot the input has; auto_pad
  // inserts the other padded[i] - source[i].
  std::vector<int64_t> source;
};

// Checks everything about `batch` that does not depend on a layout, and reads
// its lengths. Only lengths and masks are read, no other element.
//
// A batch without seq_lens has one sequence a row; a [B, S] attention_mask or
// the padding_mask gives its real length. With seq_lens the attention_mask is
// ignored. Whether slots fit a layout is the planner's question.
//
// Example: S = 8, seq_lens = {{3, 5}}, auto_pad with {kSlot, 4}
//   real = {3, 5}, padded = {4, 8}, source = {3, 5}
//
// Errors:
//   INVALID_ARGUMENT  BAD_OPTION: num_chunks < 1 or not a divisor of B, a
//                     seq_lens_padding_value that is not negative, a pad rule
//                     below 1, a padding_token_id that int32 ids cannot hold.
//                     BATCH_MALFORMED, SHAPE_MISMATCH, LENGTHS_INCONSISTENT,
//                     MASK_NOT_SUPPORTED, BATCH_TOO_LARGE: the batch is wrong;
//                     see token_shape.h, row_lengths.h, batch_masks.h and
//                     auto_pad.h. Messages name row, sequence and both values.
absl::StatusOr<BatchDescription> ValidateBatch(const PackedBatch& batch,
                                               const BatchOptions& options);

}  // namespace cpfeed

#endif  // CPFEED_CORE_BATCH_VALIDATE_BATCH_H_

// Reads the two ragged length arrays of a batch.

#ifndef CPFEED_CORE_BATCH_ROW_LENGTHS_H_
#define CPFEED_CORE_BATCH_ROW_LENGTHS_H_

#include "absl/status/statusor.h"
#include "core/batch/packed_batch.h"
#include "core/batch/packed_lengths.h"
#include "core/batch/token_shape.h"

namespace cpfeed {

// The sequences of `batch` as its seq_lens say, sentinels left out, slots as
// wide as the rows. Without seq_lens_padded slots are as wide as the real
// lengths. With `options.auto_fill` the last slot of a row whose slots sum
// below S is extended to S; a row without a slot gets one of real length 0.
//
// `batch` has seq_lens, and `shape` is that of its tensors.
//
// Example: S = 8, sentinel -1000
//   seq_lens = {{3, 2}, {6, -1000}}, seq_lens_padded = {{4, 4}, {8, -1000}}
//   -> real = {3, 2, 6}, padded = {4, 4, 8}, row_splits = {0, 2, 3}
//
// Errors:
//   INVALID_ARGUMENT  LENGTHS_INCONSISTENT: a negative length that is no
//                     sentinel, a sentinel before a length, a real length above
//                     its slot, rows of the two arrays with different counts,
//                     slots that do not sum to S. BATCH_MALFORMED: row_splits
//                     that do not split the values into B rows.
absl::StatusOr<PackedLengths> ReadRowLengths(const PackedBatch& batch,
                                             const BatchOptions& options,
                                             const TokenShape& shape);

}  // namespace cpfeed

#endif  // CPFEED_CORE_BATCH_ROW_LENGTHS_H_

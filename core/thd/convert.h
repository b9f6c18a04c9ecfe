// BSHD to THD: rows of packed sequences become one stream of tokens a chunk.

#ifndef CPFEED_CORE_THD_CONVERT_H_
#define CPFEED_CORE_THD_CONVERT_H_

#include "absl/status/statusor.h"
#include "core/batch/packed_batch.h"
#include "core/thd/thd_batch.h"

namespace cpfeed {

// Validates `batch` and describes it in THD layout: rows behind each other, no
// token dropped, cut into options.num_chunks independent chunks of equally many
// rows.
//
// No payload is copied or changed: the result refers to the bytes of `batch`.
// What the layout alone decides is described and not stored:
//   padding_mask  always generated, never taken from token values
//   position_ids  generated (int64; restart in every slot and run on through
//                 its padding) where the batch has none, else the batch's
//
// Example: two rows of 4, [a a a . | b b . .], one chunk
//   cu_seqlens = {0, 3, 5}, cu_seqlens_padded = {0, 4, 8}, max_seqlen = 3,
//   max_seqlen_padded = 4, position_ids 0 1 2 3 0 1 2 3,
//   padding_mask F F F T F F T T
//
// Errors: those of ValidateBatch.
absl::StatusOr<ThdBatch> ConvertToThd(const PackedBatch& batch,
                                      const BatchOptions& options);

}  // namespace cpfeed

#endif  // CPFEED_CORE_THD_CONVERT_H_

// What the masks of a batch say about its lengths. Masks never change what is
// computed: they give real lengths where nothing else does, or must agree.

#ifndef CPFEED_CORE_BATCH_BATCH_MASKS_H_
#define CPFEED_CORE_BATCH_BATCH_MASKS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/batch/packed_batch.h"
#include "core/batch/packed_lengths.h"
#include "core/batch/token_shape.h"

namespace cpfeed {

// One sequence a row, for a batch without seq_lens: its real length is the
// number of leading ones of a [B, S] attention_mask, or of leading zeros of
// padding_mask, or S where there is neither mask. Both masks must agree.
//
// Errors:
//   INVALID_ARGUMENT  MASK_NOT_SUPPORTED: an element that is neither 0 nor 1,
//                     or a token behind a padding position.
//                     LENGTHS_INCONSISTENT: the two masks disagree.
absl::StatusOr<PackedLengths> LengthsFromMasks(const PackedBatch& batch,
                                               const TokenShape& shape);

// Checks a padding_mask that came with seq_lens, and any dense attention_mask,
// against `lengths`. A [B, S] attention_mask is not read. The dense mask must
// be causal inside each sequence and zero outside; rows of padding positions
// may hold anything, as nothing depends on them.
//
// Errors:
//   INVALID_ARGUMENT  LENGTHS_INCONSISTENT: padding_mask differs from the
//                     layout. MASK_NOT_SUPPORTED: attention_mask differs from
//                     causal. The message has row, sequence and position.
absl::Status CheckMasks(const PackedBatch& batch, const TokenShape& shape,
                        const PackedLengths& lengths);

}  // namespace cpfeed

#endif  // CPFEED_CORE_BATCH_BATCH_MASKS_H_

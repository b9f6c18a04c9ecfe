// Rows cut into one contiguous part a rank.

#ifndef CPFEED_CORE_CONTEXT_CONTIGUOUS_BATCH_H_
#define CPFEED_CORE_CONTEXT_CONTIGUOUS_BATCH_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "core/context/cp_batch.h"
#include "core/shard/parity_partition.h"

namespace cpfeed {

struct ContiguousOptions {
  int64_t padding_token_id = 0;
  // The padded width is a multiple of cp_size * max(pad_multiple, 2).
  int64_t pad_multiple = 1;
};

struct ContiguousShard {
  TensorBatch batch;
  int64_t original_seq_len = 0;  // S
  int64_t padded_seq_len = 0;
};

// shard_batch_contiguous, which came with release 0.7: rank r takes the
// positions [r * P / cp_size, (r + 1) * P / cp_size) of every row, where P is S
// rounded up. Of the batch, which is left as it is:
//
//   input_ids or inputs_embeds  [B, S] or [B, S, H]; padded by the padding id,
//                               embeddings by 0
//   labels         -100; where there are none, loss_mask takes their name
//   position_ids   [1 or B, S] or [n_rope, 1 or B, S]; each row goes on by 1;
//                  [1, S] of 0, 1, ... where there are none
//   padding_mask   true
//   others         with S positions on axis 1: 0. Else they are left whole
//   attention_mask is dropped: documents decide who sees whom
//
// With one rank nothing is cut or padded.
//
// Example: ids 1 2 3, cp_size 2: P is 4, rank 1 has 3 and the padding id, at
// the positions 2 and 3.
//
// Errors:
//   INVALID_ARGUMENT  Neither labels nor loss_mask, or not just one of
//                     input_ids and inputs_embeds (reasons KeyError,
//                     AssertionError); a tensor of these with another width
//                     (SHAPE_MISMATCH); a rank that is none (BAD_OPTION).
absl::StatusOr<ContiguousShard> ShardBatchContiguous(
    const TensorBatch& batch, ParityRank rank,
    const ContiguousOptions& options = {});

}  // namespace cpfeed

#endif  // CPFEED_CORE_CONTEXT_CONTIGUOUS_BATCH_H_

// MakeCpBatchForTe as it should be: the native mode.

#ifndef CPFEED_CORE_CONTEXT_CP_BATCH_THD_H_
#define CPFEED_CORE_CONTEXT_CP_BATCH_THD_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/batch/packed_batch.h"
#include "core/context/cp_batch.h"
#include "core/context/cp_batch_te.h"
#include "core/plan/layout_spec.h"
#include "core/shard/parity_partition.h"

namespace cpfeed {

struct CpThdOptions {
  BatchOptions batch;  // But for pad_rule, which the layout decides.
  LayoutSpec layout;   // HEAD_TAIL_PER_SEQUENCE is TransformerEngine's.
};

// Converts BSHD rows to THD and takes this rank's tokens, also with one rank,
// by the rules of a cpfeed server; one batch for each chunk.
//
// `batch` has input_ids [B, S] or float [B, S, H], labels, and optionally
// position_ids ([B, S] or [n_rope, B, S]), attention_mask, padding_mask,
// seq_lens and seq_lens_padded ([B, most sequences], fillers are accepted), and
// any further tensors [B, S, ...], which are sharded like the tokens. Each
// result has
//
//   input_ids, labels, position_ids, padding_mask and the further tensors, this
//       rank's rows, in their own dtypes; position_ids and padding_mask also
//       where the batch has none, the mask always from the layout
//   cu_seqlens, cu_seqlens_padded  int32, of the whole group: real lengths, and
//       slots, which locate tokens
//   max_seqlen, max_seqlen_padded  int32 scalars: the widest real length, the
//       widest slot
//   values: qkv_format, cp_size, cp_rank, num_label_tokens (of this rank) and
//       num_label_tokens_global (of the step)
//   local_indices  int32: for each row its position in the chunk's padded
//       stream, -1 for rows that token_multiple adds
//
// Errors:
//   INVALID_ARGUMENT  `qkv_format` is not "thd" (reason BAD_OPTION), a rank
//                     that is none, or a rule of PrepareBatch is broken.
absl::StatusOr<std::vector<TeBatch>> MakeCpBatchForTe(
    const TensorBatch& batch, const CpThdOptions& options, ParityRank rank,
    absl::string_view qkv_format = "thd");

}  // namespace cpfeed

#endif  // CPFEED_CORE_CONTEXT_CP_BATCH_THD_H_

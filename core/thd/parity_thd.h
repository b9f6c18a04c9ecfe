// Upstream's BSHD to THD conversion, result for result: for users who move from
// NeMo AutoModel and want to see that nothing changed before they take the
// native mode.

#ifndef CPFEED_CORE_THD_PARITY_THD_H_
#define CPFEED_CORE_THD_PARITY_THD_H_

#include "absl/status/statusor.h"
#include "core/thd/parity_dict.h"
#include "core/thd/parity_options.h"

namespace cpfeed {

// Upstream's process_input_for_thd; num_chunks does not count. Takes input_ids
// [B, S] or [B, S, H], labels and position_ids [B, S], seq_lens and
// seq_lens_padded [B, P]; returns with T = B * S
//
//   input_ids [T] or [T, H], labels [T], position_ids [T], own dtypes
//   cu_seqlens [N + 1] int32: 0.4 of slots; 0.7 of real lengths, where its
//     last entry becomes T if only the last slot has padding
//   padding_mask: 0.4 [T] or [T, H], elements that equal padding_token_id;
//     0.7 [T], by the layout
//   0.7: cu_seqlens_padded [N + 1] where it differs, max_seqlen (a scalar)
//   other keys: 0.4 those that are no tensors; 0.7 all
//
// Shared quirks: H = 1 collapses to [T]; position_ids may be None and stay so.
//
// Errors:
//   INVALID_ARGUMENT  Upstream raises: the reason is the exception's type.
//                     Or it accepts what no mode may accept; see
//                     parity_rules.h.
absl::StatusOr<ParityDict> ProcessInputForThd(const ParityDict& batch,
                                              const ParityOptions& options);

// Upstream's split_batch_into_thd_chunks: the same for num_chunks groups of
// rows, stacked on a new first axis of size C. Rows of cu_seqlens are filled up
// with seq_lens_padding_value. Without a chunk axis where num_chunks is 1.
// Extra tensors are left out if num_chunks > 1.
//
// Errors: as ProcessInputForThd; BAD_OPTION where num_chunks does not divide B.
absl::StatusOr<ParityDict> SplitBatchIntoThdChunks(
    const ParityDict& batch, const ParityOptions& options);

}  // namespace cpfeed

#endif  // CPFEED_CORE_THD_PARITY_THD_H_

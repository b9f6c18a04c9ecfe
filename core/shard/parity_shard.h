// Upstream's sharding of a THD batch for TransformerEngine, result for result;
// see core/thd/parity_thd.h.

#ifndef CPFEED_CORE_SHARD_PARITY_SHARD_H_
#define CPFEED_CORE_SHARD_PARITY_SHARD_H_

#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/shard/parity_partition.h"
#include "core/tensor/tensor.h"
#include "core/thd/parity_dict.h"
#include "core/thd/parity_options.h"

namespace cpfeed {

struct ParityShard {
  ParityDict batch;
  // 0.7 without a chunk axis only: for each local token its position in the
  // stream; int32, or int64 where cp_size is 1.
  std::optional<Tensor> local_indices;
};

// Upstream's make_cp_batch_for_te: converts `batch` (see
// SplitBatchIntoThdChunks) and takes this rank's tokens of every chunk. At
// cp_size 1 that is the converted batch as it is. `qkv_format` must be "thd".
//
// Errors:
//   INVALID_ARGUMENT  BAD_OPTION: `rank` is none. Otherwise as
//                     SplitBatchIntoThdChunks and ShardThdChunkForTe.
absl::StatusOr<ParityShard> MakeCpBatchForTe(const ParityDict& batch,
                                             const ParityOptions& options,
                                             absl::string_view qkv_format,
                                             ParityRank rank);

// Upstream's _shard_thd_chunk_for_te: this rank's tokens of one converted
// chunk. Each slot is cut in 2 * cp_size equal pieces, rank r takes the pieces
// r and 2 * cp_size - 1 - r. Returns with T tokens of all ranks
//
//   input_ids, labels, position_ids [T / cp_size], cast to int64
//   cu_seqlens int32: of slots, of the whole group, fillers included
//   max_seqlen: the widest slot, of the whole group
//   padding_mask [T / cp_size]: 0.4 by token value, 0.7 the chunk's
//   qkv_format "thd", cp_size, cp_rank; 0.7: other keys, unsharded
//
// Errors:
//   INVALID_ARGUMENT  RuntimeError: T or a slot boundary is no multiple of
//                     2 * cp_size, which TransformerEngine checks at best in
//                     debug builds. Other exceptions as upstream.
//                     LENGTHS_INCONSISTENT, SHAPE_MISMATCH: slots that do not
//                     cover the tokens just once, which it would mis-shard.
absl::StatusOr<ParityShard> ShardThdChunkForTe(const ParityDict& chunk,
                                               const ParityOptions& options,
                                               ParityRank rank);

}  // namespace cpfeed

#endif  // CPFEED_CORE_SHARD_PARITY_SHARD_H_

// Batches for TransformerEngine: THD, chunked, and one rank's tokens.

#ifndef CPFEED_CORE_CONTEXT_CP_BATCH_TE_H_
#define CPFEED_CORE_CONTEXT_CP_BATCH_TE_H_

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/context/cp_batch.h"
#include "core/shard/parity_partition.h"
#include "core/thd/parity_options.h"

namespace cpfeed {

struct TeBatch {
  TensorBatch tensors;
  // Values that are no tensors, as JSON: qkv_format "\"thd\"", cp_size "2".
  std::map<std::string, std::string> values;
  // 0.7 and no chunk axis: for each local token its position in the stream.
  std::optional<at::Tensor> local_indices;
};

// make_cp_batch_for_te as the release `options.parity` has it, key for key:
// converts BSHD rows with seq_lens to THD, in options.num_chunks chunks, and
// takes this rank's tokens, also with one rank. What TransformerEngine would
// mis-shard is refused (see core/shard/parity_shard.h).
//
// Errors:
//   INVALID_ARGUMENT  `qkv_format` is not "thd", or a rule is broken; where
//                     upstream raises the reason is its exception's type.
absl::StatusOr<TeBatch> MakeCpBatchForTe(const TensorBatch& batch,
                                         const ParityOptions& options,
                                         ParityRank rank,
                                         absl::string_view qkv_format = "thd");

// _shard_thd_chunk_for_te: one converted chunk, one rank.
absl::StatusOr<TeBatch> ShardThdChunkForTe(const TeBatch& chunk,
                                           const ParityOptions& options,
                                           ParityRank rank);

}  // namespace cpfeed

#endif  // CPFEED_CORE_CONTEXT_CP_BATCH_TE_H_

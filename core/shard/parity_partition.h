// TransformerEngine's partition of a THD stream, as upstream calls it.

#ifndef CPFEED_CORE_SHARD_PARITY_PARTITION_H_
#define CPFEED_CORE_SHARD_PARITY_PARTITION_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/tensor/tensor.h"
#include "core/thd/parity_dict.h"

namespace cpfeed {

// One rank of a context-parallel group.
struct ParityRank {
  int cp_size = 1;  // At least 1.
  int cp_rank = 0;  // In [0, cp_size).
};

// Slot boundaries of one chunk.
struct ParitySlots {
  Tensor with_fillers;              // cu_seqlens as upstream passes it on.
  std::vector<int64_t> boundaries;  // Without fillers.

  int64_t WidestSlot() const;
};

// Errors:
//   INVALID_ARGUMENT  BAD_OPTION: `rank` is none.
absl::Status CheckParityRank(ParityRank rank);

// Reads cu_seqlens_padded of `chunk`, else cu_seqlens.
//
// Errors:
//   INVALID_ARGUMENT  KeyError, TypeError: there is no such tensor.
absl::StatusOr<ParitySlots> ReadParitySlots(const ParityDict& chunk,
                                            int64_t filler);

// The positions that `rank` holds of `num_tokens`: of every slot the pieces r
// and 2 * cp_size - 1 - r of 2 * cp_size equal ones.
//
// Errors:
//   INVALID_ARGUMENT  RuntimeError: num_tokens or a boundary is no multiple of
//                     2 * cp_size. LENGTHS_INCONSISTENT: the boundaries do not
//                     ascend from 0 to num_tokens.
absl::StatusOr<std::vector<int32_t>> ParityPartition(const ParitySlots& slots,
                                                     int64_t num_tokens,
                                                     ParityRank rank);

}  // namespace cpfeed

#endif  // CPFEED_CORE_SHARD_PARITY_PARTITION_H_

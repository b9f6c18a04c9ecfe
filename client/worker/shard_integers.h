// Integers out of a shard, for jobs that compute with them.

#ifndef CPFEED_CLIENT_WORKER_SHARD_INTEGERS_H_
#define CPFEED_CLIENT_WORKER_SHARD_INTEGERS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/shard/shard.h"

namespace cpfeed {

// The shard's tensor `name`, one for each local row; of positions with several
// components the first, [num_tokens].
//
// Errors:
//   INVALID_ARGUMENT  There is none (reason SCHEMA_MISMATCH), it is of floats,
//                     or it has too few elements (SHAPE_MISMATCH).
absl::StatusOr<std::vector<int64_t>> ShardIntegers(const Shard& shard,
                                                   absl::string_view name);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_SHARD_INTEGERS_H_

// Batches and results of the parity modes as JSON.

#ifndef CPFEED_CLIENT_CLI_PARITY_JSON_H_
#define CPFEED_CLIENT_CLI_PARITY_JSON_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/json_values.h"
#include "core/batch/parity.h"
#include "core/shard/parity_shard.h"
#include "core/thd/parity_dict.h"

namespace cpfeed {

// Reads the same objects as BatchFromJson, as upstream's dictionary: null is
// None, ragged length arrays become [B, P] filled up with `filler`.
//
// Errors:
//   INVALID_ARGUMENT  BATCH_MALFORMED, SHAPE_MISMATCH: see BatchFromJson.
absl::StatusOr<ParityDict> ParityDictFromJson(const Json& value,
                                              int64_t filler);

// {"status": "OK", "parity": "automodel_0_7", "ranks": [{...}, ...]}, tensors
// in their flat form; local_indices among the rest where there are any.
Json ParityJson(Parity parity, const std::vector<ParityShard>& ranks);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_CLI_PARITY_JSON_H_

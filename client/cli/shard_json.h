// Shards of all ranks as JSON.

#ifndef CPFEED_CLIENT_CLI_SHARD_JSON_H_
#define CPFEED_CLIENT_CLI_SHARD_JSON_H_

#include <vector>

#include "client/cli/json_values.h"
#include "core/shard/shard.h"

namespace cpfeed {

// {"status": "OK", "num_label_tokens_global": 3, "chunks": [
//    {"total_tokens", "layout", "cu_seqlens", "cu_seqlens_padded",
//     "max_seqlen", "max_seqlen_padded", "plan_digest", "metrics": {...},
//     "ranks": [{"rank", "index", "source_index", "cu_seqlens",
//                "cu_seqlens_padded", "segments", "num_label_tokens",
//                "padding_mask", "input_ids", ...}]}]}
//
// Arrays of a chunk are global, those in "ranks" local. Segments are triples
// [sequence, begin in its slot, length]. `ranks` has every rank's part of one
// step, in order, and at least one; the values of the object `plain` are added
// to each rank.
Json ShardsJson(const std::vector<StepShard>& ranks, const Json& plain);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_CLI_SHARD_JSON_H_

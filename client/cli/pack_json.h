// Packed batches and their statistics as JSON.

#ifndef CPFEED_CLIENT_CLI_PACK_JSON_H_
#define CPFEED_CLIENT_CLI_PACK_JSON_H_

#include <cstdint>
#include <string>

#include "client/cli/json_values.h"
#include "core/batch/packed_batch.h"
#include "core/batch/packer.h"
#include "core/batch/packer_rows.h"
#include "core/batch/parity.h"

namespace cpfeed {

// One line, without its end, as `cpfeed shard --input` takes it:
//   {"input_ids": [[...], ...], "labels": ..., "position_ids": ...,
//    "seq_lens": ..., "seq_lens_padded": ...}
// int64 tensors [B, S] as a list for each row; lengths as a ragged list for
// each row, natively; in a parity mode as the release's collater gives them:
// filled with -1000 to one width, and "qkv_format": "thd" at the end.
std::string PackedBatchLine(const PackedBatch& batch, Parity parity);

// {"status": "OK", "batches", "rows", "sequences", "documents", "tokens",
//  "padding", "label_tokens", "fill_ratio", "dropped_documents",
//  "dropped_tokens", "cut_documents", "empty_documents"}
Json PackStatisticsJson(const PackCounts& counts, const PackLosses& losses);

// The same for people, some lines.
std::string PackStatisticsText(const PackCounts& counts,
                               const PackLosses& losses);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_CLI_PACK_JSON_H_

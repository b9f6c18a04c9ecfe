// A batch as a JSON object of nested lists.

#ifndef CPFEED_CLIENT_CLI_BATCH_JSON_H_
#define CPFEED_CLIENT_CLI_BATCH_JSON_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cli/json_values.h"
#include "core/batch/packed_batch.h"

namespace cpfeed {

struct JsonBatch {
  PackedBatch batch;
  // Values that are neither tensors nor null ("step": 9), as an object. They
  // go to every rank as they are.
  Json plain = Json::object();
};

// Reads {"input_ids": [[1, 2, 3, 0]], "labels": [[2, 3, -100, -100]],
//        "seq_lens": [[3]], "seq_lens_padded": [[4]], ...}.
//
// Tensors are nested lists or flat tensors (see tensor_json.h); null is as good
// as absent; other keys with tensors are extras. The token axes of an extra are
// the first two neighbouring ones of sizes [B, S], or its flat form says
// "sequence_axis". Length arrays may be ragged, or rectangular with sentinels.
//
// Errors:
//   INVALID_ARGUMENT  BATCH_MALFORMED, SHAPE_MISMATCH: `value` is no object, a
//                     list is not what its key needs, or a key is one that the
//                     output uses; the message names the path. Whether the
//                     batch is a valid one is not checked here.
absl::StatusOr<JsonBatch> BatchFromJson(const Json& value);

// One list of lengths for each row; entries are integers.
//
// Errors: as above.
absl::StatusOr<RaggedLengths> RaggedLengthsFromJson(const Json& value,
                                                    absl::string_view name);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_CLI_BATCH_JSON_H_

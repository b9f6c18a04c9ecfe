// A training step of one device: documents in, gradients out.

#ifndef CPFEED_CLIENT_WORKER_MODEL_DOCUMENT_STEP_H_
#define CPFEED_CLIENT_WORKER_MODEL_DOCUMENT_STEP_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "client/worker/expected_batches.h"
#include "client/worker/model/decoder.h"

namespace cpfeed {

struct DocumentStep {
  double loss = 0;         // Mean cross entropy over the labels.
  int64_t num_labels = 0;  // Those that are not -100.
};

// Runs each document by itself through the model, LibTorch's attention and the
// gated delta rule token by token: no packing, no shards, no ranks. Adds the
// gradients of the mean over all documents to the model's. The model's linear
// attention is handed its positions (AttachLinearAttnPositionHooks).
//
// Errors:
//   INVALID_ARGUMENT  A document has no labels, or ids that are none of the
//                     model's; the message has the document.
absl::StatusOr<DocumentStep> TrainOnDocuments(
    Decoder& model, const std::vector<ExpectedSequence>& documents);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_MODEL_DOCUMENT_STEP_H_

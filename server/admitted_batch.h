// From an admitted batch to a step: what PutBatches and PutBatch share.

#ifndef CPFEED_SERVER_ADMITTED_BATCH_H_
#define CPFEED_SERVER_ADMITTED_BATCH_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "core/shard/prepare_batch.h"
#include "core/tensor/buffer.h"
#include "core/wire/batch_codec.h"
#include "server/batch_converter.h"
#include "server/metrics/server_metrics.h"
#include "server/session_host.h"

namespace cpfeed {

// A batch whose header SessionHost::Admit has taken.
struct AdmittedBatch {
  int64_t connection = 0;
  int64_t sequence = 0;
  std::string batch_id;
  int64_t data_epoch = 0;
  WireBatch batch;
  Buffer payload;  // What `batch` refers to.
};

// Converts the batch, completes it in `host` and counts it. `charge` is called
// as by ConvertBatch. An error leaves the batch admitted; the caller rejects it
// or closes the connection. A batch that fails with INTERNAL is poison: see
// SessionHost::Quarantine.
//
// Errors: those of ConvertBatch and SessionHost::Complete.
absl::Status ConvertAndComplete(SessionHost& host, AdmittedBatch admitted,
                                const ConversionBackend& backend,
                                ServerMetrics& metrics,
                                const ChargeMemory& charge);

}  // namespace cpfeed

#endif  // CPFEED_SERVER_ADMITTED_BATCH_H_

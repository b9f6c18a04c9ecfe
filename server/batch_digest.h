// What makes two batches the same: for telling a repetition from a conflict.

#ifndef CPFEED_SERVER_BATCH_DIGEST_H_
#define CPFEED_SERVER_BATCH_DIGEST_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "cpfeed/v1/ingest.pb.h"

namespace cpfeed {

// XXH3-64 over names, dtypes, shapes and checksums of the tensors, and
// data_epoch. The payload itself is not needed: the checksums are verified when
// it comes.
//
// Errors:
//   INVALID_ARGUMENT  A tensor has no checksum.
absl::StatusOr<uint64_t> BatchDigest(const v1::BatchHeader& header);

}  // namespace cpfeed

#endif  // CPFEED_SERVER_BATCH_DIGEST_H_

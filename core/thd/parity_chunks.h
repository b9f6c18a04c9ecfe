// Upstream's cutting of a batch into chunks, without our own rules.

#ifndef CPFEED_CORE_THD_PARITY_CHUNKS_H_
#define CPFEED_CORE_THD_PARITY_CHUNKS_H_

#include "absl/status/statusor.h"
#include "core/thd/parity_dict.h"
#include "core/thd/parity_options.h"

namespace cpfeed {

// What upstream's split_batch_into_thd_chunks makes of `batch`, however
// senseless its lengths are; see SplitBatchIntoThdChunks, which refuses those.
//
// Errors:
//   INVALID_ARGUMENT  A tensor whose shape does not fit its bytes
//                     (SHAPE_MISMATCH), or upstream raises: the reason is the
//                     exception's type.
absl::StatusOr<ParityDict> RunSplitIntoThdChunks(const ParityDict& batch,
                                                 const ParityOptions& options);

}  // namespace cpfeed

#endif  // CPFEED_CORE_THD_PARITY_CHUNKS_H_

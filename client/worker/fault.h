// Faults that a test puts into a worker to see that its check finds them.

#ifndef CPFEED_CLIENT_WORKER_FAULT_H_
#define CPFEED_CLIENT_WORKER_FAULT_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/shard/shard.h"

namespace cpfeed {

// All of them strike the last rank, from its second step on or at it.
enum class Fault {
  kNone,
  kSwap,     // Two rows of the shard change places.
  kDrop,     // A step is lost.
  kStaleKv,  // Keys and values are those of the step before.
};

// "", "swap", "drop" or "stale_kv".
//
// Errors:
//   INVALID_ARGUMENT  Another name; the message lists them.
absl::StatusOr<Fault> ParseFault(absl::string_view name);

// Swaps the first and the last local row in the one-dimensional tensors of the
// first chunk that has two rows.
//
// Errors:
//   INVALID_ARGUMENT  There is no such chunk.
absl::Status SwapRows(StepShard& shard);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_FAULT_H_

// Where a worker's steps come from.

#ifndef CPFEED_CLIENT_WORKER_STEP_SOURCE_H_
#define CPFEED_CLIENT_WORKER_STEP_SOURCE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "client/resuming_reader.h"
#include "core/shard/shard.h"

namespace cpfeed {

// A step, or its number alone where it is skipped at every rank.
struct WorkerStep {
  int64_t step = 0;
  std::optional<StepShard> shard;
};

// The next step; nothing at the end of the data. A call says that the step
// before has been used.
using StepSource = std::function<absl::StatusOr<std::optional<WorkerStep>>()>;

// The steps of a reader, which are acknowledged when they have been used. Where
// its server goes away a call waits until the reader goes on or gives up.
StepSource StepsOf(std::shared_ptr<ResumingReader> reader);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_STEP_SOURCE_H_

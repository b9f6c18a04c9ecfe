// The steps of a job in their order, the same at all ranks.

#ifndef CPFEED_CLIENT_WORKER_STEP_ORDER_H_
#define CPFEED_CLIENT_WORKER_STEP_ORDER_H_

#include <cstdint>
#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/worker/expected_batches.h"
#include "client/worker/fault.h"
#include "client/worker/step_source.h"
#include "core/comm/communicator.h"
#include "core/shard/shard.h"

namespace cpfeed {

struct StepOrderOptions {
  // How many steps; nothing: to the end of the data.
  std::optional<int64_t> num_steps;
  // kDrop is done here; Strikes() is for the others.
  Fault fault = Fault::kNone;
  // What was fed, if this rank knows. Not owned.
  ExpectedBatches* expected = nullptr;
};

class StepOrder {
 public:
  StepOrder(const StepOrderOptions& options, StepSource source,
            Communicator& group);

  // The next step that is not skipped; nothing behind num_steps, or at the end
  // of the data. All ranks call it.
  //
  // Errors:
  //   FAILED_PRECONDITION  A step is missing, or ranks are at different steps
  //                        (reason OUT_OF_ORDER).
  //   OUT_OF_RANGE         The data ended before num_steps, or before the
  //                        expected batches did.
  //   Others               Those of the source and of the group.
  absl::StatusOr<std::optional<WorkerStep>> Next();

  // How many Next() gave.
  int64_t given() const { return given_; }

  // Whether the fault strikes this rank at the step that Next() gave last: at
  // the last rank, from the second step on.
  bool Strikes(Fault fault) const { return IsDueFor(fault) && given_ >= 2; }

  // Strikes(fault) as a function of its own; empty where it never does.
  std::function<bool()> StrikesOf(Fault fault) const {
    if (!IsDueFor(fault)) return nullptr;
    return [this, fault] { return Strikes(fault); };
  }

 private:
  bool IsDueFor(Fault fault) const {
    return options_.fault == fault && group_.rank() == group_.size() - 1;
  }
  absl::StatusOr<std::optional<WorkerStep>> Read();
  absl::Status CheckEnd();

  const StepOrderOptions options_;
  const StepSource source_;
  Communicator& group_;
  std::optional<int64_t> due_;  // The step that must come next.
  int64_t given_ = 0;
  bool dropped_ = false;  // Fault::kDrop has struck.
};

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_STEP_ORDER_H_

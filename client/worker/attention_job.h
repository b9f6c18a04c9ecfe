// The worker's attention job: context-parallel attention over every step that
// is streamed to this rank, compared with one device.

#ifndef CPFEED_CLIENT_WORKER_ATTENTION_JOB_H_
#define CPFEED_CLIENT_WORKER_ATTENTION_JOB_H_

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <optional>

#include "absl/status/statusor.h"
#include "client/worker/attention_shape.h"
#include "client/worker/expected_batches.h"
#include "client/worker/fault.h"
#include "client/worker/step_report.h"
#include "client/worker/step_source.h"
#include "core/attention/kv_exchange.h"
#include "core/comm/communicator.h"

namespace cpfeed {

struct AttentionJobOptions {
  AttentionShape shape;
  // How many steps to run; nothing: to the end of the data.
  std::optional<int64_t> num_steps;
  double tolerance = 1e-5;  // Largest difference that passes.
  Fault fault = Fault::kNone;
  c10::Device device = c10::kCPU;  // Where this rank computes.
  // If rank 0 has these, it compares the outputs with what one device gives for
  // them; the other ranks need not. Not owned.
  ExpectedBatches* expected = nullptr;
  // Told of each step, at rank 0 only.
  std::function<void(const StepReport&)> on_step;
};

// Runs the job as this rank of `group`. All ranks call it with equal
// options, but for what rank 0 alone has.
//
// Errors:
//   DATA_LOSS            A difference above the tolerance, or a document that
//                        is not the one that was fed; the message has the step.
//   FAILED_PRECONDITION  Ranks are at different steps or have different plans,
//                        or a step is missing (reason OUT_OF_ORDER).
//   OUT_OF_RANGE         The data ended before num_steps, or before the
//                        expected batches did.
//   Others               Those of `source`, of AttendStep and of the group.
absl::StatusOr<JobSummary> RunAttentionJob(const AttentionJobOptions& options,
                                           const KvExchange& exchange,
                                           StepSource source,
                                           Communicator& group);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_ATTENTION_JOB_H_

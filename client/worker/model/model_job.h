// The worker's model job: a small decoder trains on the steps that are streamed
// to the ranks, beside the same model on one device.

#ifndef CPFEED_CLIENT_WORKER_MODEL_MODEL_JOB_H_
#define CPFEED_CLIENT_WORKER_MODEL_MODEL_JOB_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "client/worker/expected_batches.h"
#include "client/worker/fault.h"
#include "client/worker/model/decoder_shape.h"
#include "client/worker/model/model_report.h"
#include "client/worker/step_source.h"
#include "core/attention/kv_exchange.h"
#include "core/comm/communicator.h"

namespace cpfeed {

// A job of so many steps must end with half of its first loss.
inline constexpr int64_t kHalvesFromSteps = 50;

struct ModelJobOptions {
  DecoderShape shape;
  uint64_t seed = 1;              // Of the first parameters.
  double learning_rate = 0.0005;  // See Optimizer.
  // How many steps to run; nothing: to the end of the data.
  std::optional<int64_t> num_steps;
  double tolerance = 1e-5;  // Largest relative difference that passes.
  Fault fault = Fault::kNone;
  // If rank 0 has these, it trains a second model in float64 on one device.
  // Each step's loss must be the same, and the gradients at the first step and
  // at the last, where those of every step between have left their traces. Not
  // owned.
  ExpectedBatches* expected = nullptr;
  // Told of each step, at rank 0 only.
  std::function<void(const ModelStepReport&)> on_step;
};

// Trains as this rank of `group`. All ranks call it with equal options, but for
// what rank 0 alone has.
//
// Errors:
//   DATA_LOSS   A loss, the gradients or the number of labels is not that of
//               one device; the message has the step. Or the loss has not
//               halved.
//   Others      Those of StepOrder::Next, TrainOnShard and TrainOnDocuments.
absl::StatusOr<ModelSummary> RunModelJob(
    const ModelJobOptions& options, const KvExchange& exchange,
    StepSource source, const std::shared_ptr<Communicator>& group);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_MODEL_MODEL_JOB_H_

#include "client/worker/model/model_job.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/worker/model/decoder.h"
#include "client/worker/model/document_step.h"
#include "client/worker/model/model_difference.h"
#include "client/worker/model/optimizer.h"
#include "client/worker/model/shard_step.h"
#include "client/worker/stale_kv_exchange.h"
#include "client/worker/step_order.h"
#include "client/worker/step_report.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/context/attention_hooks.h"

namespace cpfeed {
namespace {

// A model and what trains it.
struct Trainee {
  Trainee(const ModelJobOptions& options, at::ScalarType type)
      : model(options.shape, options.seed) {
    model.to(type);
    optimizer.emplace(model.parameters(), options.learning_rate);
  }

  Decoder model;
  std::optional<Optimizer> optimizer;
};

double RelativeDifference(double given, double expected) {
  return given == expected ? 0
                           : std::abs(given - expected) / std::abs(expected);
}

class ModelJob {
 public:
  ModelJob(const ModelJobOptions& options, const KvExchange& exchange,
           StepSource source, const std::shared_ptr<Communicator>& group);

  absl::StatusOr<ModelSummary> Run();

 private:
  bool checks() const { return one_device_ != nullptr; }
  absl::Status RunStep(int64_t step, StepShard shard);
  absl::Status Check(ModelStepReport& report);
  absl::Status CheckGradients();
  absl::Status CheckEnd();

  const ModelJobOptions& options_;
  const std::shared_ptr<Communicator> group_;
  StepOrder steps_;
  const std::shared_ptr<const KvExchange> exchange_;
  Trainee ranks_;                        // The same at all of them.
  std::unique_ptr<Trainee> one_device_;  // Null where nothing is checked.
  std::vector<double> losses_;
  GradientDifference last_gradients_;  // Of the last step.
  ModelSummary summary_;
};

ModelJob::ModelJob(const ModelJobOptions& options, const KvExchange& exchange,
                   StepSource source,
                   const std::shared_ptr<Communicator>& group)
    : options_(options),
      group_(group),
      steps_({.num_steps = options.num_steps,
              .fault = options.fault,
              .expected = group->rank() == 0 ? options.expected : nullptr},
             std::move(source), *group),
      exchange_(std::make_shared<const StaleKvExchange>(
          exchange, steps_.StrikesOf(Fault::kStaleKv))),
      ranks_(options, at::kFloat) {
  AttachCpHooks(ranks_.model, group);
  if (group->rank() == 0 && options.expected != nullptr) {
    one_device_ = std::make_unique<Trainee>(options, at::kDouble);
    AttachLinearAttnPositionHooks(one_device_->model);
  }
}

absl::Status ModelJob::Check(ModelStepReport& report) {
  CF_ASSIGN_OR_RETURN(const auto documents,
                      options_.expected->Read(report.step));
  if (!documents) {
    return absl::DataLossError("it is behind the last batch that was fed");
  }
  CF_ASSIGN_OR_RETURN(const DocumentStep expected,
                      TrainOnDocuments(one_device_->model, *documents));
  last_gradients_ = CompareGradients(ranks_.model, one_device_->model);
  report.one_device_loss = expected.loss;
  report.loss_difference = RelativeDifference(report.loss, expected.loss);
  report.gradient_difference = last_gradients_.relative;
  summary_.loss_difference =
      std::max(summary_.loss_difference.value_or(0), *report.loss_difference);
  if (report.labels != expected.num_labels) {
    return absl::DataLossError(absl::StrCat(
        "step has ", report.labels, " labels; the batch that was fed has ",
        expected.num_labels));
  }
  // A NaN is no small difference.
  if (!(*report.loss_difference <= options_.tolerance)) {
    return absl::DataLossError(absl::StrCat(
        "loss is ", report.loss, "; must be one device's ", expected.loss,
        " within a relative difference of ", options_.tolerance));
  }
  return losses_.size() == 1 ? CheckGradients() : absl::OkStatus();
}

absl::Status ModelJob::CheckGradients() {
  summary_.gradient_difference = std::max(
      summary_.gradient_difference.value_or(0), last_gradients_.relative);
  if (last_gradients_.relative <= options_.tolerance) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "gradients have a relative difference of ", last_gradients_.relative,
      " to one device, most of it in ", last_gradients_.parameter,
      "; must be at most ", options_.tolerance));
}

absl::Status ModelJob::RunStep(int64_t step, StepShard shard) {
  if (steps_.Strikes(Fault::kSwap)) CF_RETURN_IF_ERROR(SwapRows(shard));
  const StepReport plans = ReportOfPlans(step, shard);
  ModelStepReport report{.step = step,
                         .documents = plans.documents,
                         .tokens = plans.tokens,
                         .labels = shard.num_label_tokens_global};
  CF_ASSIGN_OR_RETURN(report.loss,
                      TrainOnShard(ranks_.model, shard, exchange_, group_));
  losses_.push_back(report.loss);
  const absl::Status status = checks() ? Check(report) : absl::OkStatus();
  if (group_->rank() == 0 && options_.on_step) options_.on_step(report);
  CF_RETURN_IF_ERROR(status);
  ranks_.optimizer->Step();
  if (checks()) one_device_->optimizer->Step();
  return absl::OkStatus();
}

absl::Status ModelJob::CheckEnd() {
  summary_.steps = steps_.given();
  if (losses_.empty()) return absl::OkStatus();
  if (checks()) {
    const absl::Status status = CheckGradients();
    if (!status.ok()) return Annotate(status, "last step");
  }
  summary_.first_loss = losses_.front();
  const int64_t last = std::min<int64_t>(summary_.steps, 5);
  summary_.last_loss =
      std::accumulate(losses_.end() - last, losses_.end(), 0.0) /
      static_cast<double>(last);
  if (summary_.steps < kHalvesFromSteps ||
      summary_.last_loss <= summary_.first_loss / 2) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat(
      "loss fell from ", summary_.first_loss, " to ", summary_.last_loss,
      " in ", summary_.steps, " steps; must have halved"));
}

absl::StatusOr<ModelSummary> ModelJob::Run() {
  while (true) {
    CF_ASSIGN_OR_RETURN(std::optional<WorkerStep> step, steps_.Next());
    if (!step) break;
    const absl::Status status = RunStep(step->step, *std::move(step->shard));
    if (!status.ok()) {
      return Annotate(status, absl::StrCat("step ", step->step));
    }
  }
  CF_RETURN_IF_ERROR(CheckEnd());
  return summary_;
}

}  // namespace

absl::StatusOr<ModelSummary> RunModelJob(
    const ModelJobOptions& options, const KvExchange& exchange,
    StepSource source, const std::shared_ptr<Communicator>& group) {
  return ModelJob(options, exchange, std::move(source), group).Run();
}

}  // namespace cpfeed

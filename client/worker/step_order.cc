#include "client/worker/step_order.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/comm/agreement.h"

namespace cpfeed {

StepOrder::StepOrder(const StepOrderOptions& options, StepSource source,
                     Communicator& group)
    : options_(options), source_(std::move(source)), group_(group) {}

absl::StatusOr<std::optional<WorkerStep>> StepOrder::Read() {
  CF_ASSIGN_OR_RETURN(std::optional<WorkerStep> step, source_());
  if (step && IsDueFor(Fault::kDrop) && given_ >= 1 && !dropped_) {
    dropped_ = true;
    CF_ASSIGN_OR_RETURN(step, source_());
  }
  if (!step) return step;
  if (due_ && step->step != *due_) {
    return MakeError(absl::StatusCode::kFailedPrecondition, kOutOfOrder,
                     absl::StrCat("rank ", group_.rank(), " received step ",
                                  step->step, "; must be ", *due_));
  }
  due_ = step->step + 1;
  return step;
}

absl::StatusOr<std::optional<WorkerStep>> StepOrder::Next() {
  while (!options_.num_steps || given_ < *options_.num_steps) {
    CF_ASSIGN_OR_RETURN(std::optional<WorkerStep> step, Read());
    CF_RETURN_IF_ERROR(CheckStepAgreement(group_, step ? step->step : -1));
    if (!step) break;
    if (!step->shard) continue;
    ++given_;
    return step;
  }
  CF_RETURN_IF_ERROR(CheckEnd());
  return std::nullopt;
}

absl::Status StepOrder::CheckEnd() {
  if (options_.num_steps) {
    if (given_ == *options_.num_steps) return absl::OkStatus();
    return absl::OutOfRangeError(absl::StrCat(
        "data ended after ", given_, " steps; must be ", *options_.num_steps));
  }
  if (options_.expected == nullptr) return absl::OkStatus();
  CF_ASSIGN_OR_RETURN(const auto more,
                      options_.expected->Read(due_.value_or(0)));
  if (!more) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat("data ended after step ",
                                            due_.value_or(0) - 1,
                                            "; batches were fed behind it"));
}

}  // namespace cpfeed

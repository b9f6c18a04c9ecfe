#include "client/worker/attention_job.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/worker/attention_step.h"
#include "client/worker/gather.h"
#include "client/worker/step_check.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/comm/agreement.h"
#include "core/comm/collectives.h"

namespace cpfeed {
namespace {

// The elements of each rank's rows of a chunk.
std::vector<int64_t> CountsOf(const ShardPlan& plan, int64_t row_width) {
  std::vector<int64_t> counts;
  for (const RankPlan& rank : plan.ranks) {
    counts.push_back(rank.num_tokens * row_width);
  }
  return counts;
}

class AttentionJob {
 public:
  AttentionJob(const AttentionJobOptions& options, const KvExchange& exchange,
               StepSource source, Communicator& group)
      : options_(options),
        exchange_(exchange),
        source_(std::move(source)),
        group_(group) {}

  absl::StatusOr<JobSummary> Run();

 private:
  // Whether the fault strikes this rank at the current step.
  bool Strikes(Fault fault) const {
    return options_.fault == fault && group_.rank() == group_.size() - 1 &&
           summary_.steps >= 1;
  }

  absl::Status AgreeOnCheck();
  absl::StatusOr<std::optional<WorkerStep>> NextStep();
  absl::Status RunStep(int64_t step, StepShard shard);
  absl::StatusOr<std::vector<ChunkQkv>> StepQkv(StepShard& shard);
  absl::Status Check(const StepShard& shard,
                     const std::vector<at::Tensor>& outputs,
                     StepReport& report);
  absl::Status CheckEnd(int64_t next_step);

  const AttentionJobOptions& options_;
  const KvExchange& exchange_;
  const StepSource source_;
  Communicator& group_;
  bool check_ = false;  // Rank 0 compares.
  JobSummary summary_;
  std::optional<int64_t> due_;      // The step that must come next.
  bool dropped_ = false;            // Fault::kDrop has struck.
  std::vector<ChunkQkv> last_qkv_;  // Of the step before.
};

absl::StatusOr<std::optional<WorkerStep>> AttentionJob::NextStep() {
  CF_ASSIGN_OR_RETURN(std::optional<WorkerStep> step, source_());
  if (step && Strikes(Fault::kDrop) && !dropped_) {
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

absl::StatusOr<std::vector<ChunkQkv>> AttentionJob::StepQkv(StepShard& shard) {
  if (Strikes(Fault::kSwap)) CF_RETURN_IF_ERROR(SwapRows(shard));
  CF_ASSIGN_OR_RETURN(std::vector<ChunkQkv> qkv,
                      DeriveQkv(shard, options_.shape));
  for (ChunkQkv& chunk : qkv) {
    for (at::Tensor* tensor : {&chunk.q, &chunk.k, &chunk.v}) {
      *tensor = tensor->to(options_.device);
    }
  }
  std::vector<ChunkQkv> fresh = qkv;
  if (Strikes(Fault::kStaleKv)) {
    for (size_t c = 0; c < std::min(qkv.size(), last_qkv_.size()); ++c) {
      const int64_t rows = std::min(qkv[c].k.size(0), last_qkv_[c].k.size(0));
      qkv[c].k = qkv[c].k.clone();
      qkv[c].v = qkv[c].v.clone();
      qkv[c].k.narrow(0, 0, rows).copy_(last_qkv_[c].k.narrow(0, 0, rows));
      qkv[c].v.narrow(0, 0, rows).copy_(last_qkv_[c].v.narrow(0, 0, rows));
    }
  }
  last_qkv_ = std::move(fresh);
  return qkv;
}

absl::Status AttentionJob::RunStep(int64_t step, StepShard shard) {
  CF_ASSIGN_OR_RETURN(const std::vector<ChunkQkv> qkv, StepQkv(shard));
  CF_ASSIGN_OR_RETURN(
      const StepOutputs outputs,
      AttendStep(shard, qkv, options_.shape, exchange_, group_));
  CF_ASSIGN_OR_RETURN(
      const auto received_by_rank,
      GatherAtRankZero<int64_t>(group_, {outputs.kv_bytes_received},
                                std::vector<int64_t>(group_.size(), 1)));
  StepReport report = ReportOfPlans(step, shard);
  for (const auto& bytes : received_by_rank) {
    report.bytes_received.push_back(bytes[0]);
  }
  const absl::Status status = Check(shard, outputs.out, report);
  if (group_.rank() == 0 && options_.on_step) options_.on_step(report);
  return status;
}

absl::Status AttentionJob::Check(const StepShard& shard,
                                 const std::vector<at::Tensor>& outputs,
                                 StepReport& report) {
  if (!check_) return absl::OkStatus();
  const int64_t row_width = options_.shape.num_heads * options_.shape.head_dim;
  std::vector<ChunkOutputs> chunks;
  for (size_t c = 0; c < outputs.size(); ++c) {
    const auto& plan = shard.chunks[c].plan;
    CF_ASSIGN_OR_RETURN(
        auto rows,
        GatherAtRankZero<float>(group_,
                                {outputs[c].const_data_ptr<float>(),
                                 static_cast<size_t>(outputs[c].numel())},
                                CountsOf(*plan, row_width)));
    chunks.push_back({plan, std::move(rows)});
  }
  if (group_.rank() != 0) return absl::OkStatus();
  CF_ASSIGN_OR_RETURN(const auto documents,
                      options_.expected->Read(report.step));
  if (!documents) {
    return absl::DataLossError("it is behind the last batch that was fed");
  }
  CF_ASSIGN_OR_RETURN(
      report.max_difference,
      MaxDifferenceToOneDevice(*documents, options_.shape, chunks));
  summary_.max_difference =
      std::max(summary_.max_difference, *report.max_difference);
  if (*report.max_difference <= options_.tolerance) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "largest difference to one device is ", *report.max_difference,
      "; must be at most ", options_.tolerance));
}

absl::Status AttentionJob::CheckEnd(int64_t next_step) {
  if (options_.num_steps && summary_.steps < *options_.num_steps) {
    return absl::OutOfRangeError(
        absl::StrCat("data ended after ", summary_.steps, " steps; must be ",
                     *options_.num_steps));
  }
  if (group_.rank() != 0 || !check_ || options_.num_steps) {
    return absl::OkStatus();
  }
  CF_ASSIGN_OR_RETURN(const auto more, options_.expected->Read(next_step));
  if (!more) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat(
      "data ended after step ", next_step - 1, "; batches were fed behind it"));
}

absl::Status AttentionJob::AgreeOnCheck() {
  int64_t wanted = group_.rank() == 0 && options_.expected != nullptr ? 1 : 0;
  CF_RETURN_IF_ERROR(
      AllReduce(group_, DType::kInt64, ReduceOp::kMax,
                {reinterpret_cast<std::byte*>(&wanted), sizeof(wanted)}));
  check_ = wanted != 0;
  return absl::OkStatus();
}

absl::StatusOr<JobSummary> AttentionJob::Run() {
  CF_RETURN_IF_ERROR(AgreeOnCheck());
  while (!options_.num_steps || summary_.steps < *options_.num_steps) {
    CF_ASSIGN_OR_RETURN(std::optional<WorkerStep> step, NextStep());
    CF_RETURN_IF_ERROR(CheckStepAgreement(group_, step ? step->step : -1));
    if (!step) break;
    if (!step->shard) continue;
    const absl::Status status = RunStep(step->step, *std::move(step->shard));
    if (!status.ok())
      return Annotate(status, absl::StrCat("step ", step->step));
    ++summary_.steps;
  }
  CF_RETURN_IF_ERROR(CheckEnd(due_.value_or(0)));
  return summary_;
}

}  // namespace

absl::StatusOr<JobSummary> RunAttentionJob(const AttentionJobOptions& options,
                                           const KvExchange& exchange,
                                           StepSource source,
                                           Communicator& group) {
  return AttentionJob(options, exchange, std::move(source), group).Run();
}

}  // namespace cpfeed

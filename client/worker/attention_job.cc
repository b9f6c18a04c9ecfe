#include "client/worker/attention_job.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/worker/attention_step.h"
#include "client/worker/gather.h"
#include "client/worker/stale_kv_exchange.h"
#include "client/worker/step_check.h"
#include "client/worker/step_order.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
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
        group_(group),
        steps_({.num_steps = options.num_steps,
                .fault = options.fault,
                .expected = group.rank() == 0 ? options.expected : nullptr},
               std::move(source), group),
        exchange_(exchange, steps_.StrikesOf(Fault::kStaleKv)) {}

  absl::StatusOr<JobSummary> Run();

 private:
  absl::Status AgreeOnCheck();
  absl::Status RunStep(int64_t step, StepShard shard);
  absl::Status Check(const StepShard& shard,
                     const std::vector<at::Tensor>& outputs,
                     StepReport& report);

  const AttentionJobOptions& options_;
  Communicator& group_;
  StepOrder steps_;
  const StaleKvExchange exchange_;
  bool check_ = false;  // Rank 0 compares.
  JobSummary summary_;
};

absl::Status AttentionJob::RunStep(int64_t step, StepShard shard) {
  if (steps_.Strikes(Fault::kSwap)) CF_RETURN_IF_ERROR(SwapRows(shard));
  CF_ASSIGN_OR_RETURN(std::vector<ChunkQkv> qkv,
                      DeriveQkv(shard, options_.shape));
  for (ChunkQkv& chunk : qkv) {
    for (at::Tensor* const tensor : {&chunk.q, &chunk.k, &chunk.v}) {
      *tensor = tensor->to(options_.device);
    }
  }
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
      std::max(summary_.max_difference.value_or(0), *report.max_difference);
  if (*report.max_difference <= options_.tolerance) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "largest difference to one device is ", *report.max_difference,
      "; must be at most ", options_.tolerance));
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
  while (true) {
    CF_ASSIGN_OR_RETURN(std::optional<WorkerStep> step, steps_.Next());
    if (!step) return summary_;
    const absl::Status status = RunStep(step->step, *std::move(step->shard));
    if (!status.ok())
      return Annotate(status, absl::StrCat("step ", step->step));
    summary_.steps = steps_.given();
  }
}

}  // namespace

absl::StatusOr<JobSummary> RunAttentionJob(const AttentionJobOptions& options,
                                           const KvExchange& exchange,
                                           StepSource source,
                                           Communicator& group) {
  return AttentionJob(options, exchange, std::move(source), group).Run();
}

}  // namespace cpfeed

#include "server/plan_service.h"

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/batch/packed_lengths.h"
#include "core/plan/shard_plan.h"
#include "core/wire/sharding_codec.h"
#include "core/wire/status_codec.h"
#include "server/plan_message.h"
#include "server/step_history.h"
#include "server/step_plans.h"
#include "transport/grpc_status.h"

namespace cpfeed {
namespace {

constexpr int kMostSequences = 1 << 21;
constexpr int kMostLayouts = 16;
constexpr int kMostRanks = 4096;

absl::StatusOr<PackedLengths> LengthsOf(const v1::PlanBatchRequest& request) {
  const int count = request.seq_lens_size();
  if (count > kMostSequences) {
    return MakeError(absl::StatusCode::kResourceExhausted, kQuota,
                     absl::StrCat(count, " sequences; at most ", kMostSequences,
                                  " are planned in one call"));
  }
  PackedLengths lengths;
  lengths.real.assign(request.seq_lens().begin(), request.seq_lens().end());
  lengths.padded = lengths.real;
  if (!request.seq_lens_padded().empty()) {
    lengths.padded.assign(request.seq_lens_padded().begin(),
                          request.seq_lens_padded().end());
  }
  lengths.row_splits = {0};
  for (const int64_t sequences : request.sequences_per_row()) {
    if (sequences < 0 || sequences > count - lengths.row_splits.back()) {
      return InvalidArgument(
          kLengthsInconsistent,
          absl::StrCat("sequences_per_row of row ",
                       lengths.row_splits.size() - 1, " is ", sequences, "; ",
                       count - lengths.row_splits.back(),
                       " sequences are left"));
    }
    lengths.row_splits.push_back(lengths.row_splits.back() + sequences);
  }
  if (request.sequences_per_row().empty()) {
    lengths.row_splits.push_back(count);
  } else if (lengths.row_splits.back() != count) {
    return InvalidArgument(
        kLengthsInconsistent,
        absl::StrCat("sequences_per_row sums to ", lengths.row_splits.back(),
                     "; seq_lens has ", count, " entries"));
  }
  return lengths;
}

absl::Status PlanOne(const PackedLengths& lengths,
                     const v1::PlanBatchRequest& request,
                     const v1::ShardingSpec& spec, v1::LayoutPlan& proto) {
  *proto.mutable_sharding() = spec;
  CF_ASSIGN_OR_RETURN(const Sharding sharding, ShardingFromProto(spec));
  CF_ASSIGN_OR_RETURN(const ShardPlan plan,
                      PlanShards(lengths, ResolveLayout(sharding.layout, true),
                                 request.cp_size()));
  proto = PlanToProto(plan, request.include_segments());
  return absl::OkStatus();
}

absl::Status PlanAll(const grpc::ServerContext& context,
                     const v1::PlanBatchRequest& request,
                     v1::PlanBatchResponse& response) {
  if (request.cp_size() < 1 || request.cp_size() > kMostRanks) {
    return InvalidArgument(kBadOption,
                           absl::StrCat("cp_size is ", request.cp_size(),
                                        "; must be 1 to ", kMostRanks));
  }
  if (request.shardings_size() > kMostLayouts) {
    return InvalidArgument(
        kBadOption, absl::StrCat(request.shardings_size(),
                                 " shardings; must be at most ", kMostLayouts));
  }
  CF_ASSIGN_OR_RETURN(const PackedLengths lengths, LengthsOf(request));
  auto shardings = request.shardings();
  if (shardings.empty()) shardings.Add();
  for (const v1::ShardingSpec& spec : shardings) {
    if (context.IsCancelled())
      return absl::CancelledError("the caller is gone");
    v1::LayoutPlan& plan = *response.add_plans();
    const absl::Status status = PlanOne(lengths, request, spec, plan);
    if (absl::IsInvalidArgument(status) && ReasonOf(status) != kNotDivisible) {
      return status;
    }
    if (!status.ok()) *plan.mutable_status() = StatusToProto(status);
  }
  return absl::OkStatus();
}

absl::Status NoSuchStep(const SessionHost& host, int64_t step) {
  const std::shared_ptr<const StepRecord> newest = host.NewestRecord();
  if (newest == nullptr) {
    return MakeError(absl::StatusCode::kNotFound, kCursorMismatch,
                     "no step is published since the session was made, or "
                     "went to a cursor");
  }
  if (step > newest->step) {
    return MakeError(
        absl::StatusCode::kNotFound, kCursorMismatch,
        absl::StrCat("step ", step, " is not published; the last one is ",
                     newest->step));
  }
  return MakeError(
      absl::StatusCode::kOutOfRange, kCursorExpired,
      absl::StrCat("step ", step, " is not remembered; the last one is ",
                   newest->step));
}

absl::Status ExplainChunk(const ChunkPlan& chunk, int cp_size,
                          const v1::ExplainStepRequest& request,
                          v1::ChunkExplanation& proto) {
  CF_ASSIGN_OR_RETURN(const ShardPlan plan,
                      PlanShards(chunk.lengths, chunk.layout, cp_size));
  CF_CHECK(plan.digest == chunk.digest);
  *proto.mutable_plan() = PlanToProto(plan, request.include_segments());
  if (!request.include_lengths()) return absl::OkStatus();
  const PackedLengths& lengths = chunk.lengths;
  *proto.mutable_seq_lens() = {lengths.real.begin(), lengths.real.end()};
  *proto.mutable_seq_lens_padded() = {lengths.padded.begin(),
                                      lengths.padded.end()};
  for (int64_t row = 0; row < lengths.num_rows(); ++row) {
    proto.add_sequences_per_row(lengths.row_splits[row + 1] -
                                lengths.row_splits[row]);
  }
  return absl::OkStatus();
}

absl::Status Explain(const SessionHost& host,
                     const v1::ExplainStepRequest& request,
                     v1::ExplainStepResponse& response) {
  const std::shared_ptr<const StepRecord> record =
      request.has_step() ? host.FindRecord(request.step())
                         : host.NewestRecord();
  if (record == nullptr) return NoSuchStep(host, request.step());
  response.set_step(record->step);
  response.set_producer(record->producer);
  response.set_sequence(record->sequence);
  response.set_batch_id(record->batch_id);
  response.set_data_epoch(record->data_epoch);
  response.set_held(host.FindStep(record->step) != nullptr);
  if (record->plans == nullptr) return absl::OkStatus();
  response.set_cp_size(record->plans->cp_size());
  for (const ChunkPlan& chunk : record->plans->chunks()) {
    CF_RETURN_IF_ERROR(ExplainChunk(chunk, record->plans->cp_size(), request,
                                    *response.add_chunks()));
  }
  return absl::OkStatus();
}

}  // namespace

grpc::Status PlanServiceImpl::ExplainStep(grpc::ServerContext* context,
                                          const v1::ExplainStepRequest* request,
                                          v1::ExplainStepResponse* response) {
  const auto caller = CallerOf(authenticator_, *context);
  if (!caller.ok()) return ToGrpcStatus(caller.status());
  const auto host = registry_.Find(request->session(), *caller);
  if (!host.ok()) return ToGrpcStatus(host.status());
  const auto lease = plans_.Take(caller->name(), caller->quota().plans);
  if (!lease.ok()) return ToGrpcStatus(lease.status());
  return ToGrpcStatus(Explain(**host, *request, *response));
}

grpc::Status PlanServiceImpl::PlanBatch(grpc::ServerContext* context,
                                        const v1::PlanBatchRequest* request,
                                        v1::PlanBatchResponse* response) {
  const auto caller = CallerOf(authenticator_, *context);
  if (!caller.ok()) return ToGrpcStatus(caller.status());
  const auto lease = plans_.Take(caller->name(), caller->quota().plans);
  if (!lease.ok()) return ToGrpcStatus(lease.status());
  return ToGrpcStatus(PlanAll(*context, *request, *response));
}

}  // namespace cpfeed

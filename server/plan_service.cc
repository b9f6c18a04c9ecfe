#include "server/plan_service.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/batch/packed_lengths.h"
#include "core/plan/plan_bounds.h"
#include "core/plan/plan_metrics.h"
#include "core/plan/shard_plan.h"
#include "core/wire/sharding_codec.h"
#include "core/wire/status_codec.h"
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

void FillMetrics(const PlanMetrics& metrics, v1::LayoutPlan& proto) {
  v1::PlanMetrics& all = *proto.mutable_metrics();
  all.set_max_tokens(metrics.tokens.max);
  all.set_mean_tokens(metrics.tokens.mean);
  all.set_max_area(static_cast<double>(metrics.area.max));
  all.set_mean_area(metrics.area.mean);
  all.set_area_imbalance(metrics.area.imbalance());
  all.set_padding_tokens(metrics.padding_tokens);
  all.set_max_kv_rows_received(metrics.kv_rows_received.max);
  all.set_mean_kv_rows_received(metrics.kv_rows_received.mean);
  all.set_max_tiles(metrics.tiles.max);
  all.set_mean_tiles(metrics.tiles.mean);
  all.set_max_slices(metrics.slices.max);
  all.set_unsharded_tiles(metrics.unsharded_tiles);
  all.set_max_kv_rows_sent(metrics.kv_rows_sent.max);
  all.set_max_kv_rows_sent_once(metrics.kv_rows_sent_once.max);
  all.set_cost_imbalance(metrics.cost.imbalance());
  for (size_t rank = 0; rank < metrics.ranks.size(); ++rank) {
    const RankMetrics& one = metrics.ranks[rank];
    v1::RankPlan& plan = *proto.add_ranks();
    plan.set_cp_rank(static_cast<int>(rank));
    plan.set_num_tokens(one.num_tokens);
    plan.set_area(static_cast<double>(one.area));
    plan.set_tiles(one.tiles);
    plan.set_kv_rows_received(one.kv_rows_received);
    plan.set_kv_rows_sent(one.kv_rows_sent);
    all.set_max_kv_fan_out(std::max(all.max_kv_fan_out(), one.kv_fan_out));
  }
}

void FillBounds(const PlanBounds& bounds, v1::PlanBounds& proto) {
  proto.set_max_tokens(bounds.max_tokens);
  proto.set_area_imbalance(bounds.area_imbalance);
  proto.set_mean_kv_rows_received(bounds.mean_kv_rows);
  proto.set_mean_kv_rows_received_band(bounds.mean_kv_band);
  proto.set_max_kv_rows_received(bounds.max_kv_rows);
  proto.set_max_tiles(bounds.max_tiles);
  proto.set_max_slices(bounds.max_slices);
}

void FillSegments(const ShardPlan& plan, v1::LayoutPlan& proto) {
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    auto& segments =
        *proto.mutable_ranks(static_cast<int>(rank))->mutable_segments();
    for (const Segment& segment : plan.ranks[rank].segments) {
      segments.Add(segment.sequence);
      segments.Add(segment.begin);
      segments.Add(segment.length);
    }
  }
}

absl::Status PlanOne(const PackedLengths& lengths,
                     const v1::PlanBatchRequest& request,
                     const v1::ShardingSpec& spec, v1::LayoutPlan& proto) {
  *proto.mutable_sharding() = spec;
  CF_ASSIGN_OR_RETURN(const Sharding sharding, ShardingFromProto(spec));
  CF_ASSIGN_OR_RETURN(const ShardPlan plan,
                      PlanShards(lengths, ResolveLayout(sharding.layout, true),
                                 request.cp_size()));
  *proto.mutable_sharding() = ShardingToProto(plan.spec);
  proto.set_plan_digest(plan.digest);
  FillMetrics(ComputePlanMetrics(plan), proto);
  FillBounds(ComputePlanBounds(plan.lengths, plan.cp_size, plan.spec.mask),
             *proto.mutable_bounds());
  if (request.include_segments()) FillSegments(plan, proto);
  return absl::OkStatus();
}

absl::Status PlanAll(const v1::PlanBatchRequest& request,
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
    v1::LayoutPlan& plan = *response.add_plans();
    const absl::Status status = PlanOne(lengths, request, spec, plan);
    if (absl::IsInvalidArgument(status) && ReasonOf(status) != kNotDivisible) {
      return status;
    }
    if (!status.ok()) *plan.mutable_status() = StatusToProto(status);
  }
  return absl::OkStatus();
}

}  // namespace

grpc::Status PlanServiceImpl::PlanBatch(grpc::ServerContext* context,
                                        const v1::PlanBatchRequest* request,
                                        v1::PlanBatchResponse* response) {
  const auto caller = CallerOf(authenticator_, *context);
  if (!caller.ok()) return ToGrpcStatus(caller.status());
  const auto lease = plans_.Take(caller->name(), caller->quota().plans);
  if (!lease.ok()) return ToGrpcStatus(lease.status());
  return ToGrpcStatus(PlanAll(*request, *response));
}

}  // namespace cpfeed

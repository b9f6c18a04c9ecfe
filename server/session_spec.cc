#include "server/session_spec.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/batch/token_shape.h"
#include "core/wire/cursor_codec.h"
#include "core/wire/tensor_codec.h"
#include "google/protobuf/util/time_util.h"
#include "transport/channel_settings.h"

namespace cpfeed {
namespace {

constexpr size_t kMaxIdBytes = 63;
constexpr int kMaxLabels = 32;

// Tensors of a batch that are not extra ones.
constexpr absl::string_view kBatchTensors[] = {
    "attention_mask", "input_ids", "labels",          "padding_mask",
    "position_ids",   "seq_lens",  "seq_lens_padded", "sequences_per_row"};

template <class T>
T OrDefault(T value, T fallback) {
  return value == 0 ? fallback : value;
}

void ClearOutputOnly(v1::Session& session) {
  session.clear_name();
  session.clear_state();
  session.clear_state_detail();
  session.clear_generation();
  session.clear_next_step();
  session.clear_first_held_step();
  session.clear_committed_step();
  session.clear_memory_bytes();
  session.clear_producer_positions();
  session.clear_consumer_positions();
  session.clear_create_time();
  session.clear_spec_digest();
}

absl::Status CheckTimes(const v1::Session& session) {
  const auto check = [](absl::string_view field, absl::Duration time,
                        absl::Duration least) -> absl::Status {
    constexpr absl::Duration kMost = absl::Hours(24 * 365);
    if (time == absl::ZeroDuration() || (least <= time && time <= kMost)) {
      return absl::OkStatus();
    }
    return InvalidField(
        field, absl::StrCat("is ", absl::FormatDuration(time), "; must be ",
                            absl::FormatDuration(least), " to ",
                            absl::FormatDuration(kMost), ", or 0"));
  };
  CF_RETURN_IF_ERROR(check("lease_duration",
                           DurationOf(session.lease_duration()),
                           absl::Seconds(1)));
  return check("delivery.stall_timeout",
               DurationOf(session.delivery().stall_timeout()),
               absl::Milliseconds(1));
}

void FillDefaults(const SessionDefaults& defaults, v1::Session& session) {
  v1::Topology& topology = *session.mutable_topology();
  topology.set_consumers_per_cp_rank(
      OrDefault(topology.consumers_per_cp_rank(), 1));
  topology.set_dp_size(OrDefault(topology.dp_size(), 1));
  if (session.producers().empty()) session.add_producers("default");
  v1::DeliverySpec& delivery = *session.mutable_delivery();
  delivery.set_max_step_skew(
      OrDefault(delivery.max_step_skew(), defaults.max_step_skew));
  delivery.set_max_uncommitted_steps(OrDefault(delivery.max_uncommitted_steps(),
                                               defaults.max_uncommitted_steps));
  if (DurationOf(delivery.stall_timeout()) == absl::ZeroDuration()) {
    *delivery.mutable_stall_timeout() =
        google::protobuf::util::TimeUtil::NanosecondsToDuration(
            absl::ToInt64Nanoseconds(defaults.stall_timeout));
  }
  v1::SessionLimits& limits = *session.mutable_limits();
  limits.set_memory_budget_bytes(
      OrDefault(limits.memory_budget_bytes(), defaults.memory_budget_bytes));
  limits.set_max_batch_bytes(
      OrDefault(limits.max_batch_bytes(), defaults.max_batch_bytes));
  limits.set_max_message_bytes(
      OrDefault(limits.max_message_bytes(), defaults.max_message_bytes));
}

SessionConfig ConfigOf(const v1::Session& session) {
  return {
      .cp_size = session.topology().cp_size(),
      .consumers_per_cp_rank = session.topology().consumers_per_cp_rank(),
      .producers = {session.producers().begin(), session.producers().end()},
      .retention = session.delivery().retention() == v1::RETENTION_RETAIN
                       ? Retention::kRetain
                       : Retention::kReplay,
      .max_step_skew = session.delivery().max_step_skew(),
      .max_uncommitted_steps = session.delivery().max_uncommitted_steps(),
      .memory_budget_bytes = session.limits().memory_budget_bytes(),
      .max_batch_bytes = session.limits().max_batch_bytes(),
  };
}

// Heads must divide over the ranks that share them by all-to-all.
absl::Status CheckHeads(const v1::Topology& topology) {
  const std::string& exchange = topology.exchange();
  constexpr absl::string_view kExchanges[] = {
      "", "ring", "allgather", "alltoall", "hierarchical", "planned"};
  if (std::find(std::begin(kExchanges), std::end(kExchanges), exchange) ==
      std::end(kExchanges)) {
    return InvalidField("topology.exchange",
                        absl::StrCat("is \"", exchange,
                                     "\"; must be ring, allgather, alltoall, "
                                     "hierarchical or planned"));
  }
  const int heads = topology.num_heads();
  const int kv_heads = OrDefault(topology.num_kv_heads(), heads);
  if (heads < 0 || kv_heads < 0 ||
      (heads > 0 && kv_heads > 0 && heads % kv_heads != 0)) {
    return InvalidField(
        "topology.num_heads",
        absl::StrCat("is ", heads,
                     "; must be a multiple of num_kv_heads = ", kv_heads));
  }
  const int cp_size = topology.cp_size();
  if (exchange != "alltoall" || heads == 0) return absl::OkStatus();
  if (heads % cp_size == 0 &&
      (kv_heads % cp_size == 0 || cp_size % kv_heads == 0)) {
    return absl::OkStatus();
  }
  return MakeError(
      absl::StatusCode::kFailedPrecondition, kTopologyMismatch,
      absl::StrCat("alltoall shares ", heads, " heads and ", kv_heads,
                   " key-value heads over cp_size = ", cp_size,
                   "; the heads must divide by it, and of the key-value heads "
                   "and cp_size one must divide the other"));
}

absl::Status CheckTensorFields(const v1::Session& session) {
  if (session.tensors_size() > kMaxTensors) {
    return InvalidArgument(
        kBadOption, absl::StrCat("session has ", session.tensors_size(),
                                 " tensors; must be at most ", kMaxTensors));
  }
  for (int i = 0; i < session.tensors_size(); ++i) {
    const std::string& name = session.tensors(i).name();
    const bool of_batch =
        std::find(std::begin(kBatchTensors), std::end(kBatchTensors), name) !=
        std::end(kBatchTensors);
    if (of_batch || (!name.empty() && !IsReservedTensorName(name))) continue;
    return InvalidArgument(
        kBadOption,
        absl::StrCat("tensors[", i, "] has the name \"", name, "\", which ",
                     name.empty() ? "is empty" : "is reserved for shards",
                     "; must be another"));
  }
  return absl::OkStatus();
}

absl::Status CheckEnums(const v1::Session& session) {
  if (!v1::Retention_IsValid(session.delivery().retention())) {
    return InvalidField("delivery.retention", "is unknown");
  }
  if (!v1::PoisonPolicy_IsValid(session.delivery().poison_policy())) {
    return InvalidField("delivery.poison_policy", "is unknown");
  }
  if (session.labels_size() > kMaxLabels) {
    return InvalidArgument(
        kBadOption, absl::StrCat("session has ", session.labels_size(),
                                 " labels; must be at most ", kMaxLabels));
  }
  const int64_t message = session.limits().max_message_bytes();
  if (message < 1024 || message > kMaxChunkBytes) {
    return InvalidField(
        "limits.max_message_bytes",
        absl::StrCat("is ", message, "; must be 1024 to ", kMaxChunkBytes));
  }
  return absl::OkStatus();
}

uint64_t DigestOf(const v1::Session& session) {
  const std::string bytes = SerializeDeterministic(session);
  return Digest(bytes.data(), static_cast<int64_t>(bytes.size()));
}

// What decides which bytes each rank gets.
v1::Session WhatMakesTheData(const v1::Session& session) {
  v1::Session data;
  *data.mutable_topology() = session.topology();
  *data.mutable_sharding() = session.sharding();
  *data.mutable_tensors() = session.tensors();
  *data.mutable_producers() = session.producers();
  return data;
}

// Of that what stays when ranks come or go: where the job is, and its stream.
v1::Session WhatOutlivesATopology(const v1::Session& session) {
  v1::Session schema = WhatMakesTheData(session);
  schema.mutable_topology()->Clear();
  schema.mutable_topology()->set_dp_size(session.topology().dp_size());
  schema.mutable_topology()->set_dp_rank(session.topology().dp_rank());
  return schema;
}

}  // namespace

absl::StatusOr<std::string> SessionName(absl::string_view session_id) {
  const bool good =
      !session_id.empty() && session_id.size() <= kMaxIdBytes &&
      std::all_of(session_id.begin(), session_id.end(), [](char c) {
        return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' ||
               c == '_' || c == '.';
      });
  if (!good) {
    return InvalidArgument(
        kBadOption, absl::StrCat("session_id must be 1 to ", kMaxIdBytes,
                                 " letters, digits, '-', '_' or '.'; it has ",
                                 session_id.size(), " bytes"));
  }
  return absl::StrCat("sessions/", session_id);
}

absl::Duration DurationOf(const google::protobuf::Duration& proto) {
  return absl::Seconds(proto.seconds()) + absl::Nanoseconds(proto.nanos());
}

absl::StatusOr<SessionSpec> MakeSessionSpec(const std::string& name,
                                            const v1::Session& session,
                                            const SessionDefaults& defaults) {
  SessionSpec spec;
  spec.name = name;
  spec.session = session;
  ClearOutputOnly(spec.session);
  FillDefaults(defaults, spec.session);
  spec.config = ConfigOf(spec.session);
  CF_RETURN_IF_ERROR(CheckEnums(spec.session));
  CF_RETURN_IF_ERROR(CheckTimes(spec.session));
  CF_RETURN_IF_ERROR(CheckTensorFields(spec.session));
  CF_RETURN_IF_ERROR(ValidateConfig(spec.config));
  CF_RETURN_IF_ERROR(CheckHeads(spec.session.topology()));
  CF_ASSIGN_OR_RETURN(spec.sharding,
                      ShardingFromProto(spec.session.sharding()));
  spec.history = defaults.history;
  spec.max_message_bytes = spec.session.limits().max_message_bytes();
  spec.request_digest = DigestOf(spec.session);
  spec.digest = DigestOf(WhatMakesTheData(spec.session));
  spec.schema_digest = DigestOf(WhatOutlivesATopology(spec.session));
  return spec;
}

absl::StatusOr<SessionSpec> MakeSessionSpec(
    const v1::CreateSessionRequest& request, const SessionDefaults& defaults) {
  CF_ASSIGN_OR_RETURN(const std::string name,
                      SessionName(request.session_id()));
  return MakeSessionSpec(name, request.session(), defaults);
}

}  // namespace cpfeed

#include "core/wire/status_codec.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "core/base/error.h"
#include "google/protobuf/util/time_util.h"
#include "google/rpc/error_details.pb.h"

namespace cpfeed {
namespace {

constexpr int64_t kMostRetrySeconds = 3600;

// What a client may try again, and when, unless the error says so itself.
absl::Duration RetryDelay(const absl::Status& status) {
  const absl::Duration own = RetryDelayOf(status);
  if (own > absl::ZeroDuration()) return own;
  const std::string reason = ReasonOf(status);
  if (reason == kDraining || reason == kQuota) return absl::Seconds(1);
  return absl::ZeroDuration();
}

}  // namespace

google::rpc::Status StatusToProto(const absl::Status& status) {
  google::rpc::Status proto;
  proto.set_code(static_cast<int>(status.code()));
  proto.set_message(std::string(status.message()));
  const std::string reason = ReasonOf(status);
  if (!reason.empty()) {
    google::rpc::ErrorInfo info;
    info.set_reason(reason);
    info.set_domain(kErrorDomain);
    proto.add_details()->PackFrom(info);
  }
  if (const std::string field = FieldOf(status); !field.empty()) {
    google::rpc::BadRequest bad_request;
    auto& violation = *bad_request.add_field_violations();
    violation.set_field(field);
    violation.set_description(proto.message());
    proto.add_details()->PackFrom(bad_request);
  }
  const absl::Duration delay = RetryDelay(status);
  if (delay > absl::ZeroDuration()) {
    google::rpc::RetryInfo retry;
    *retry.mutable_retry_delay() =
        google::protobuf::util::TimeUtil::MillisecondsToDuration(
            absl::ToInt64Milliseconds(delay));
    proto.add_details()->PackFrom(retry);
  }
  return proto;
}

absl::Status StatusFromProto(const google::rpc::Status& proto) {
  const auto code = absl::Status(static_cast<absl::StatusCode>(proto.code()),
                                 "")
                        .code();  // Maps unknown numbers to UNKNOWN.
  if (code == absl::StatusCode::kOk) return absl::OkStatus();
  absl::Status status(code, proto.message());
  google::rpc::RetryInfo retry;
  for (const auto& detail : proto.details()) {
    google::rpc::ErrorInfo info;
    if (detail.UnpackTo(&info) && info.domain() == kErrorDomain &&
        ReasonOf(status).empty()) {
      status = MakeError(code, info.reason(), proto.message());
    }
    detail.UnpackTo(&retry);
  }
  // Of a stranger's number only what can be waited for.
  const int64_t seconds =
      std::clamp<int64_t>(retry.retry_delay().seconds(), 0, kMostRetrySeconds);
  const int nanos = std::clamp(retry.retry_delay().nanos(), 0, 999'999'999);
  const absl::Duration delay =
      absl::Seconds(seconds) + absl::Nanoseconds(nanos);
  return delay > absl::ZeroDuration() ? WithRetryDelay(status, delay) : status;
}

}  // namespace cpfeed

#include "core/wire/status_codec.h"

#include <string>

#include "core/base/error.h"
#include "google/rpc/error_details.pb.h"

namespace cpfeed {

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
  return proto;
}

absl::Status StatusFromProto(const google::rpc::Status& proto) {
  const auto code = absl::Status(static_cast<absl::StatusCode>(proto.code()),
                                 "")
                        .code();  // Maps unknown numbers to UNKNOWN.
  if (code == absl::StatusCode::kOk) return absl::OkStatus();
  for (const auto& detail : proto.details()) {
    google::rpc::ErrorInfo info;
    if (detail.UnpackTo(&info) && info.domain() == kErrorDomain) {
      return MakeError(code, info.reason(), proto.message());
    }
  }
  return absl::Status(code, proto.message());
}

}  // namespace cpfeed

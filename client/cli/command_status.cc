#include "client/cli/command_status.h"

#include <string>

#include "core/base/error.h"

namespace cpfeed {

int ExitStatusOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitOk;
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kDataLoss:
      return kExitFailure;
    default:
      return kExitRefused;
  }
}

Json ErrorJson(const absl::Status& status) {
  return {{"status", absl::StatusCodeToString(status.code())},
          {"reason", ReasonOf(status)},
          {"message", std::string(status.message())}};
}

int ReportError(absl::string_view command, const absl::Status& status,
                bool json, std::ostream& out, std::ostream& err) {
  const std::string reason = ReasonOf(status);
  if (json) {
    out << ErrorJson(status).dump(-1, ' ', false,
                                  Json::error_handler_t::replace)
        << std::endl;
  } else if (reason.empty()) {
    err << command << ": " << status.message() << std::endl;
  } else {
    err << command << ": " << status.message() << " (" << reason << ")"
        << std::endl;
  }
  return ExitStatusOf(status);
}

}  // namespace cpfeed

#include "core/base/error.h"

#include <optional>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace cpfeed {
namespace {

constexpr char kReasonUrl[] = "cpfeed.dev/reason";

}  // namespace

absl::Status MakeError(absl::StatusCode code, absl::string_view reason,
                       absl::string_view message) {
  absl::Status status(code, message);
  status.SetPayload(kReasonUrl, absl::Cord(reason));
  return status;
}

absl::Status InvalidArgument(absl::string_view reason,
                             absl::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason, message);
}

std::string ReasonOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kReasonUrl);
  return payload.has_value() ? std::string(*payload) : std::string();
}

absl::Status Annotate(const absl::Status& status, absl::string_view place) {
  if (status.ok()) return status;
  absl::Status annotated(status.code(),
                         absl::StrCat(place, ": ", status.message()));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    annotated.SetPayload(url, payload);
  });
  return annotated;
}

}  // namespace cpfeed

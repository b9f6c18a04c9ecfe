#include "core/base/error.h"

#include <optional>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace cpfeed {
namespace {

constexpr char kReasonUrl[] = "cpfeed.dev/reason";
constexpr char kFieldUrl[] = "cpfeed.dev/field";
constexpr char kRetryUrl[] = "cpfeed.dev/retry";  // Milliseconds.

std::string PayloadOf(const absl::Status& status, absl::string_view url) {
  const auto payload = status.GetPayload(url);
  return payload.has_value() ? std::string(*payload) : std::string();
}

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
  return PayloadOf(status, kReasonUrl);
}

absl::Status InvalidField(absl::string_view field, absl::string_view what) {
  absl::Status status =
      InvalidArgument(kBadOption, absl::StrCat(field, " ", what));
  status.SetPayload(kFieldUrl, absl::Cord(field));
  return status;
}

std::string FieldOf(const absl::Status& status) {
  return PayloadOf(status, kFieldUrl);
}

absl::Status WithRetryDelay(absl::Status status, absl::Duration delay) {
  status.SetPayload(kRetryUrl,
                    absl::Cord(absl::StrCat(absl::ToInt64Milliseconds(delay))));
  return status;
}

absl::Duration RetryDelayOf(const absl::Status& status) {
  int64_t milliseconds = 0;
  if (!absl::SimpleAtoi(PayloadOf(status, kRetryUrl), &milliseconds)) {
    return absl::ZeroDuration();
  }
  return absl::Milliseconds(milliseconds);
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

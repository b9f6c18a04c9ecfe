#include "server/drain_notice.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "core/base/error.h"
#include "google/protobuf/util/time_util.h"

namespace cpfeed {

v1::DrainNotice MakeDrainNotice(absl::Time deadline) {
  v1::DrainNotice notice;
  if (deadline == absl::InfiniteFuture()) return notice;
  const absl::Duration left =
      std::max(deadline - absl::Now(), absl::ZeroDuration());
  *notice.mutable_deadline() =
      google::protobuf::util::TimeUtil::NanosecondsToDuration(
          absl::ToInt64Nanoseconds(left));
  return notice;
}

absl::Status DrainedStatus() {
  return MakeError(absl::StatusCode::kUnavailable, kDraining,
                   "the server drains and has delivered what was complete; "
                   "open again when it is back");
}

}  // namespace cpfeed

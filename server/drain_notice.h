// What streams say when the server drains.

#ifndef CPFEED_SERVER_DRAIN_NOTICE_H_
#define CPFEED_SERVER_DRAIN_NOTICE_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "cpfeed/v1/ingest.pb.h"

namespace cpfeed {

// A notice; no deadline where it is absl::InfiniteFuture().
v1::DrainNotice MakeDrainNotice(absl::Time deadline);

// UNAVAILABLE, DRAINING: how a stream ends that has delivered everything.
absl::Status DrainedStatus();

}  // namespace cpfeed

#endif  // CPFEED_SERVER_DRAIN_NOTICE_H_

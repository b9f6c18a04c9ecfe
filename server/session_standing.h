// In what state a session is, and what it waits for.

#ifndef CPFEED_SERVER_SESSION_STANDING_H_
#define CPFEED_SERVER_SESSION_STANDING_H_

#include <string>

#include "absl/time/time.h"
#include "core/session/session.h"
#include "cpfeed/v1/session.pb.h"

namespace cpfeed {

struct SessionStanding {
  v1::SessionState state = v1::SESSION_STATE_READY;
  std::string detail;  // What is missing, or why it failed.

  friend bool operator==(const SessionStanding&,
                         const SessionStanding&) = default;
};

// `idle` is how long nothing came, was published or acknowledged. A session
// with streams or held steps that is idle for `stall_timeout` is STALLED; the
// detail names the consumers that have not acknowledged, or the producer whose
// turn it is:
//   "cp_rank 1 consumer 0 has not acknowledged step 7 and is not connected"
//   "producer b has the next step and sends nothing"
SessionStanding StandingOf(const Session& session, absl::Duration idle,
                           absl::Duration stall_timeout, bool draining);

}  // namespace cpfeed

#endif  // CPFEED_SERVER_SESSION_STANDING_H_

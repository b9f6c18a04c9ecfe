// What of a session can be changed while it lives.

#ifndef CPFEED_SERVER_SESSION_UPDATE_H_
#define CPFEED_SERVER_SESSION_UPDATE_H_

#include "absl/status/status.h"
#include "cpfeed/v1/session.pb.h"

namespace cpfeed {

// Puts the fields of request.session() that its mask names into `session`.
//
// Errors:
//   INVALID_ARGUMENT  The mask names nothing, or a field that cannot change.
absl::Status ApplyUpdate(const v1::UpdateSessionRequest& request,
                         v1::Session& session);

}  // namespace cpfeed

#endif  // CPFEED_SERVER_SESSION_UPDATE_H_

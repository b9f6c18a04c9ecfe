// How commands end: exit statuses, and errors as JSON.

#ifndef CPFEED_CLIENT_CLI_COMMAND_STATUS_H_
#define CPFEED_CLIENT_CLI_COMMAND_STATUS_H_

#include <ostream>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/cli/json_values.h"

namespace cpfeed {

inline constexpr int kExitOk = 0;
// Something went wrong that is not the caller's doing.
inline constexpr int kExitFailure = 1;
// Options or input are wrong, or a layout refuses them.
inline constexpr int kExitRefused = 2;

// What may work another time or is our own fault is a failure (INTERNAL,
// UNKNOWN, UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED, RESOURCE_EXHAUSTED,
// DATA_LOSS); other errors are refusals.
int ExitStatusOf(const absl::Status& status);

// {"status": "INVALID_ARGUMENT", "reason": "NOT_DIVISIBLE", "message": "..."}
Json ErrorJson(const absl::Status& status);

// Tells how a command failed, and returns its exit status: with `json`
// ErrorJson on `out`, else "COMMAND: message (REASON)" on `err`. In JSON bytes
// of a flag or file that are no UTF-8 are replaced.
int ReportError(absl::string_view command, const absl::Status& status,
                bool json, std::ostream& out, std::ostream& err);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_CLI_COMMAND_STATUS_H_

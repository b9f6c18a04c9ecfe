// A session as its creator described it, checked and with defaults filled in.

#ifndef CPFEED_SERVER_SESSION_SPEC_H_
#define CPFEED_SERVER_SESSION_SPEC_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "core/session/session_config.h"
#include "core/wire/sharding_codec.h"
#include "cpfeed/v1/session.pb.h"
#include "server/step_history.h"

namespace cpfeed {

// The server's answers where a session says 0, and the bounds of what a session
// may ask for.
struct SessionDefaults {
  int64_t memory_budget_bytes = int64_t{1} << 30;
  int64_t max_batch_bytes = int64_t{64} << 20;
  int64_t max_message_bytes = int64_t{1} << 20;
  int32_t max_step_skew = 8;
  int32_t max_uncommitted_steps = 2;
  HistoryOptions history;
};

struct SessionSpec {
  std::string name;     // "sessions/{id}"
  v1::Session session;  // Defaults filled in, output-only fields cleared.
  SessionConfig config;
  Sharding sharding;
  int64_t max_message_bytes = 0;
  HistoryOptions history;
  uint64_t digest = 0;  // Equal specs have equal digests.
};

// Checks a CreateSessionRequest.
//
// Errors:
//   INVALID_ARGUMENT     A field is out of range; the message names it.
//   RESOURCE_EXHAUSTED   As ValidateConfig.
//   FAILED_PRECONDITION  TOPOLOGY_MISMATCH: heads that the exchange cannot
//                        share out over cp_size.
absl::StatusOr<SessionSpec> MakeSessionSpec(
    const v1::CreateSessionRequest& request, const SessionDefaults& defaults);

// "sessions/{id}" of a valid id.
//
// Errors:
//   INVALID_ARGUMENT  The id is empty, too long or has other characters than
//                     letters, digits, '-', '_' and '.'.
absl::StatusOr<std::string> SessionName(absl::string_view session_id);

}  // namespace cpfeed

#endif  // CPFEED_SERVER_SESSION_SPEC_H_

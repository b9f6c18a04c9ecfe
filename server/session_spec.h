// A session as its creator described it, checked and with defaults filled in.

#ifndef CPFEED_SERVER_SESSION_SPEC_H_
#define CPFEED_SERVER_SESSION_SPEC_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/session/session_config.h"
#include "core/wire/sharding_codec.h"
#include "cpfeed/v1/session.pb.h"
#include "google/protobuf/duration.pb.h"
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
  absl::Duration stall_timeout = absl::Minutes(1);
};

struct SessionSpec {
  std::string name;     // "sessions/{id}"
  v1::Session session;  // Defaults filled in, output-only fields cleared.
  SessionConfig config;
  Sharding sharding;
  int64_t max_message_bytes = 0;
  HistoryOptions history;
  // Equal requests have equal ones.
  uint64_t request_digest = 0;
  // Of what decides the bytes: topology, sharding, tensors, producers.
  uint64_t digest = 0;
  // Of those what a changed cp_size leaves; see Cursor.schema_digest.
  uint64_t schema_digest = 0;
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

// As above, of a session that has its name already.
absl::StatusOr<SessionSpec> MakeSessionSpec(const std::string& name,
                                            const v1::Session& session,
                                            const SessionDefaults& defaults);

absl::Duration DurationOf(const google::protobuf::Duration& proto);

// "sessions/{id}" of a valid id.
//
// Errors:
//   INVALID_ARGUMENT  The id is empty, too long or has other characters than
//                     letters, digits, '-', '_' and '.'.
absl::StatusOr<std::string> SessionName(absl::string_view session_id);

}  // namespace cpfeed

#endif  // CPFEED_SERVER_SESSION_SPEC_H_

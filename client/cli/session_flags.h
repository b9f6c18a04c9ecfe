// Flags that describe a session to be made: those of `cpfeed feed --create` and
// of whatever else opens one.

#ifndef CPFEED_CLIENT_CLI_SESSION_FLAGS_H_
#define CPFEED_CLIENT_CLI_SESSION_FLAGS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "cpfeed/v1/session.pb.h"

namespace cpfeed {

struct SessionFlags {
  int cp_size = 1;
  int consumers_per_cp_rank = 1;
  std::string layout;
  bool uneven = false;
  int64_t stripe_width = 1;
  int64_t chunk_size = 128;
  int num_chunks = 1;
  bool auto_pad = false;
  bool auto_fill = false;
  int64_t padding_token_id = 0;
  int64_t memory_budget_bytes = 0;
  int64_t max_batch_bytes = 0;
};

// Adds the flags to a sub-command; `flags` outlives it. cp_size is left to
// the caller.
void AddSessionFlags(CLI::App& command, SessionFlags& flags);

// Errors:
//   INVALID_ARGUMENT  The layout is none.
absl::StatusOr<v1::CreateSessionRequest> MakeCreateRequest(
    const std::string& session_id, const SessionFlags& flags);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_CLI_SESSION_FLAGS_H_

// Who calls, and what they may do.

#ifndef CPFEED_SERVER_AUTH_PRINCIPAL_H_
#define CPFEED_SERVER_AUTH_PRINCIPAL_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace cpfeed {

// Reasons; see core/base/error.h.
inline constexpr char kNotAuthenticated[] = "NOT_AUTHENTICATED";
inline constexpr char kNotPermitted[] = "NOT_PERMITTED";

// A set of roles is the sum of its members.
using Roles = uint32_t;
inline constexpr Roles kLoader = 1;      // Puts batches.
inline constexpr Roles kWorker = 2;      // Reads shards.
inline constexpr Roles kController = 4;  // Makes, seeks and deletes sessions.
inline constexpr Roles kOperator = 8;    // Drains the server, reads its state.
inline constexpr Roles kAnyRole = 15;

// What one principal may take at once; 0 is no bound but the server's own.
struct Quota {
  int64_t sessions = 0;
  int64_t bytes = 0;  // Budgets of its sessions together.
  int64_t streams = 0;
  int64_t plans = 0;  // Calls of PlanBatch.
};

struct Principal {
  std::string name;  // For logs and quotas.
  // One of the two: a subject alternative name of a certificate, or the
  // SHA-256 of a token (32 bytes).
  std::string san;
  std::string token_sha256;
  Roles roles = 0;
  // Of the ids of its sessions; empty is all sessions.
  std::string session_prefix;
  Quota quota;
};

// The principal of a call. Null where the server does not ask who calls: then
// everybody may do everything.
struct Caller {
  std::shared_ptr<const Principal> principal;

  // Whether a session of this name ("sessions/{id}") is there for the caller.
  bool Sees(absl::string_view session_name) const {
    return principal == nullptr ||
           absl::StartsWith(absl::StripPrefix(session_name, "sessions/"),
                            principal->session_prefix);
  }

  // "" where nobody is asked.
  std::string name() const {
    return principal == nullptr ? "" : principal->name;
  }
  Quota quota() const {
    return principal == nullptr ? Quota() : principal->quota;
  }
};

}  // namespace cpfeed

#endif  // CPFEED_SERVER_AUTH_PRINCIPAL_H_

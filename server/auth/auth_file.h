// The file that says who may do what.
//
//   {"principals": [
//     {"name": "trainer", "san": "spiffe://cluster/ns/train/sa/rank",
//      "roles": ["worker", "controller"], "session_prefix": "llama-",
//      "quota": {"sessions": 8, "bytes": 34359738368, "streams": 512,
//                "plans": 4}},
//     {"name": "loaders", "token_sha256": "9f86d081884c7d65...",
//      "roles": ["loader"], "session_prefix": "llama-"}
//   ]}
//
// Each principal has either san, which must equal a subject alternative name
// (URI, DNS, email or IP) of the client's certificate, or token_sha256, the
// SHA-256 of a bearer token in hexadecimal. Several principals may have the
// same name: a token is replaced by listing old and new for a while.
// session_prefix and quota may be left out: all sessions, no bound.

#ifndef CPFEED_SERVER_AUTH_AUTH_FILE_H_
#define CPFEED_SERVER_AUTH_AUTH_FILE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/auth/principal.h"

namespace cpfeed {

inline constexpr int64_t kMaxAuthFileBytes = 1 << 20;
inline constexpr int kMaxPrincipals = 1024;

struct AuthFile {
  std::vector<std::shared_ptr<const Principal>> principals;
};

// Parses the text of an auth file. Members that it does not know are errors: a
// misspelt "session_prefix" would open all sessions.
//
// Errors:
//   INVALID_ARGUMENT  The message names the principal by its place and what is
//                     wrong with it. It never repeats a token's hash.
absl::StatusOr<AuthFile> ParseAuthFile(absl::string_view text);

}  // namespace cpfeed

#endif  // CPFEED_SERVER_AUTH_AUTH_FILE_H_

// Any auth file: principals that can be told apart and have a role, or an
// error.

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/status_macros.h"
#include "server/auth/auth_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<cpfeed::AuthFile> file = cpfeed::ParseAuthFile(text);
  if (!file.ok()) return 0;
  std::set<std::string> identities;
  for (const auto& principal : file->principals) {
    CF_CHECK(!principal->name.empty());
    CF_CHECK(principal->roles != 0 &&
             (principal->roles & ~cpfeed::kAnyRole) == 0);
    CF_CHECK(principal->san.empty() != principal->token_sha256.empty());
    CF_CHECK(principal->token_sha256.size() % 32 == 0);
    CF_CHECK(identities.insert(principal->san + "/" + principal->token_sha256)
                 .second);
  }
  return 0;
}

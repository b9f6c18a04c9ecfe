#include "server/protocol.h"

#include "absl/strings/str_cat.h"
#include "core/base/error.h"

namespace cpfeed {

absl::StatusOr<int> AgreeOnVersion(int client_min, int client_max) {
  const bool unsaid = client_min == 0 && client_max == 0;
  if (unsaid ||
      (client_min <= kProtocolVersion && kProtocolVersion <= client_max)) {
    return kProtocolVersion;
  }
  return MakeError(
      absl::StatusCode::kFailedPrecondition, kProtocolUnsupported,
      absl::StrCat("client speaks protocol versions ", client_min, " to ",
                   client_max, "; this server speaks ", kProtocolVersion));
}

std::string ProducerOrDefault(const std::string& id) {
  return id.empty() ? "default" : id;
}

}  // namespace cpfeed

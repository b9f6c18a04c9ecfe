// What both kinds of streams agree on when they open.

#ifndef CPFEED_SERVER_PROTOCOL_H_
#define CPFEED_SERVER_PROTOCOL_H_

#include <string>

#include "absl/status/statusor.h"

namespace cpfeed {

// The protocol version that this server speaks.
inline constexpr int kProtocolVersion = 1;

// The version that both speak; 0 and 0 stand for a client that does not say.
//
// Errors:
//   FAILED_PRECONDITION  PROTOCOL_UNSUPPORTED: there is none.
absl::StatusOr<int> AgreeOnVersion(int client_min, int client_max);

// The producer's id, "default" where it is empty.
std::string ProducerOrDefault(const std::string& id);

}  // namespace cpfeed

#endif  // CPFEED_SERVER_PROTOCOL_H_

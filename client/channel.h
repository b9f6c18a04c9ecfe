// Channels to a server, with or without TLS.

#ifndef CPFEED_CLIENT_CHANNEL_H_
#define CPFEED_CLIENT_CHANNEL_H_

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/channel_security.h"

namespace cpfeed {

// As MakeChannel of client/session_client.h, by TLS where `security` says so.
// The name in the server's certificate must be the one in `server`.
//
// Errors:
//   INVALID_ARGUMENT  A token without TLS, or one of certificate and key is
//                     missing.
//   UNAVAILABLE       A file cannot be read; the message names it.
absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(
    const std::string& server, const ChannelSecurity& security);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_CHANNEL_H_

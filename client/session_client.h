// Unary calls on sessions, with deadlines and absl statuses.

#ifndef CPFEED_CLIENT_SESSION_CLIENT_H_
#define CPFEED_CLIENT_SESSION_CLIENT_H_

#include <grpcpp/channel.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cpfeed/v1/session.pb.h"

namespace cpfeed {

// A channel to a server such as "127.0.0.1:8470", with the settings that the
// server expects. Connects when it is first used, and anew by itself.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& server);

// All calls wait for the server at most this long.
inline constexpr absl::Duration kCallTimeout = absl::Seconds(20);

absl::StatusOr<v1::Session> CreateSession(
    const std::shared_ptr<grpc::Channel>& channel,
    const v1::CreateSessionRequest& request);

absl::StatusOr<v1::Session> GetSession(
    const std::shared_ptr<grpc::Channel>& channel, absl::string_view name);

// Of all pages.
absl::StatusOr<std::vector<v1::Session>> ListSessions(
    const std::shared_ptr<grpc::Channel>& channel);

absl::Status DeleteSession(const std::shared_ptr<grpc::Channel>& channel,
                           absl::string_view name, bool force);

// GetSession, again and again while there is none, for at most `wait`.
//
// Errors:
//   NOT_FOUND  There is still none.
absl::StatusOr<v1::Session> WaitForSession(
    const std::shared_ptr<grpc::Channel>& channel, absl::string_view name,
    absl::Duration wait);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_SESSION_CLIENT_H_

#include "client/session_client.h"

#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <random>
#include <utility>

#include "absl/time/clock.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "cpfeed/v1/session.grpc.pb.h"
#include "transport/channel_settings.h"
#include "transport/grpc_status.h"

namespace cpfeed {
namespace {

constexpr absl::Duration kLongestPause = absl::Milliseconds(500);

// gRPC refuses calls that come while all of the server's threads are busy, as
// when hundreds of ranks start at once. The server's own refusals have a
// reason.
bool IsRefusedUnread(const absl::Status& status) {
  return absl::IsResourceExhausted(status) && ReasonOf(status).empty();
}

// Calls a method of SessionService.
template <class Request, class Response>
absl::StatusOr<Response> Call(const std::shared_ptr<grpc::Channel>& channel,
                              const Request& request,
                              grpc::Status (v1::SessionService::Stub::*method)(
                                  grpc::ClientContext*, const Request&,
                                  Response*)) {
  const auto stub = v1::SessionService::NewStub(channel);
  const absl::Time deadline = absl::Now() + kCallTimeout;
  absl::Duration pause = absl::Milliseconds(10);
  thread_local std::minstd_rand random{std::random_device{}()};
  while (true) {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(absl::ToChronoTime(deadline));
    Response response;
    const grpc::Status status =
        (stub.get()->*method)(&context, request, &response);
    if (status.ok()) return response;
    const absl::Status error = FromGrpcStatus(status);
    if (!IsRefusedUnread(error) || absl::Now() + pause > deadline) return error;
    // Those who were refused together must not come back together.
    absl::SleepFor(pause *
                   std::uniform_real_distribution<double>(0.5, 1)(random));
    pause = std::min(2 * pause, kLongestPause);
  }
}

}  // namespace

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& server) {
  return grpc::CreateCustomChannel(server, grpc::InsecureChannelCredentials(),
                                   MakeClientArguments());
}

absl::StatusOr<v1::Session> CreateSession(
    const std::shared_ptr<grpc::Channel>& channel,
    const v1::CreateSessionRequest& request) {
  CF_ASSIGN_OR_RETURN(
      v1::CreateSessionResponse response,
      Call(channel, request, &v1::SessionService::Stub::CreateSession));
  return std::move(*response.mutable_session());
}

absl::StatusOr<v1::Session> GetSession(
    const std::shared_ptr<grpc::Channel>& channel, absl::string_view name) {
  v1::GetSessionRequest request;
  request.set_name(std::string(name));
  CF_ASSIGN_OR_RETURN(
      v1::GetSessionResponse response,
      Call(channel, request, &v1::SessionService::Stub::GetSession));
  return std::move(*response.mutable_session());
}

absl::StatusOr<std::vector<v1::Session>> ListSessions(
    const std::shared_ptr<grpc::Channel>& channel) {
  std::vector<v1::Session> sessions;
  v1::ListSessionsRequest request;
  do {
    CF_ASSIGN_OR_RETURN(
        const v1::ListSessionsResponse page,
        Call(channel, request, &v1::SessionService::Stub::ListSessions));
    sessions.insert(sessions.end(), page.sessions().begin(),
                    page.sessions().end());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return sessions;
}

absl::Status DeleteSession(const std::shared_ptr<grpc::Channel>& channel,
                           absl::string_view name, bool force) {
  v1::DeleteSessionRequest request;
  request.set_name(std::string(name));
  request.set_force(force);
  return Call(channel, request, &v1::SessionService::Stub::DeleteSession)
      .status();
}

absl::StatusOr<v1::Session> WaitForSession(
    const std::shared_ptr<grpc::Channel>& channel, absl::string_view name,
    absl::Duration wait) {
  const absl::Time deadline = absl::Now() + wait;
  absl::Duration pause = absl::Milliseconds(10);
  while (true) {
    absl::StatusOr<v1::Session> session = GetSession(channel, name);
    if (!absl::IsNotFound(session.status()) || absl::Now() + pause > deadline) {
      return session;
    }
    absl::SleepFor(pause);
    pause = std::min(2 * pause, kLongestPause);
  }
}

}  // namespace cpfeed

// Many clients that start at once.

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/session_client.h"
#include "server/server.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::IsOk;

// gRPC refuses calls for which it has no thread: each client asks again.
TEST(BurstTest, MoreCallsThanThreadsAllGetThrough) {
  ServerOptions options;
  options.listen = "127.0.0.1:0";
  options.max_unary_threads = 2;
  const auto server = Server::Start(options);
  ASSERT_THAT(server, IsOk());
  const auto channel =
      MakeChannel(absl::StrCat("127.0.0.1:", (*server)->port()));
  v1::CreateSessionRequest request;
  request.set_session_id("train");
  request.mutable_session()->mutable_topology()->set_cp_size(2);
  constexpr int kClients = 64;
  std::vector<absl::Status> ends(kClients);
  std::vector<std::thread> clients;
  for (absl::Status& end : ends) {
    clients.emplace_back([&] {
      end = CreateSession(channel, request).status();
      if (end.ok()) end = GetSession(channel, "sessions/train").status();
    });
  }
  for (std::thread& client : clients) client.join();
  for (const absl::Status& end : ends) EXPECT_THAT(end, IsOk());
}

}  // namespace
}  // namespace cpfeed

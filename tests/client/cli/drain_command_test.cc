#include "client/cli/drain_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/session_client.h"
#include "client/shard_reader.h"
#include "core/base/error.h"
#include "server/server.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::testing::HasSubstr;

class DrainCommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ServerOptions options;
    options.listen = "127.0.0.1:0";
    options.drain_budget = absl::ZeroDuration();
    auto server = Server::Start(options);
    ASSERT_THAT(server, IsOk());
    server_ = *std::move(server);
    options_.server = absl::StrCat("127.0.0.1:", server_->port());
  }

  std::unique_ptr<Server> server_;
  DrainOptions options_;
  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(DrainCommandTest, ServerGoesOutOfServiceAndBack) {
  EXPECT_EQ(RunDrain(options_, out_, err_), 0);
  EXPECT_THAT(out_.str(), HasSubstr("drains and has 0 streams"));
  v1::CreateSessionRequest request;
  request.set_session_id("train");
  request.mutable_session()->mutable_topology()->set_cp_size(1);
  const auto channel = MakeChannel(options_.server);
  EXPECT_THAT(CreateSession(channel, request), HasReason(kDraining));
  options_.undo = true;
  EXPECT_EQ(RunDrain(options_, out_, err_), 0);
  EXPECT_THAT(out_.str(), HasSubstr("is in service"));
  EXPECT_THAT(CreateSession(channel, request), IsOk());
  EXPECT_EQ(err_.str(), "");
}

TEST_F(DrainCommandTest, WaitsForStreamsToEnd) {
  v1::CreateSessionRequest request;
  request.set_session_id("train");
  request.mutable_session()->mutable_topology()->set_cp_size(1);
  const auto channel = MakeChannel(options_.server);
  ASSERT_THAT(CreateSession(channel, request), IsOk());
  const auto reader =
      ShardReader::Attach(channel, {.session = "sessions/train"});
  ASSERT_THAT(reader, IsOk());
  options_.wait_seconds = 0;
  EXPECT_EQ(RunDrain(options_, out_, err_), 0);
  options_.wait_seconds = 30;
  EXPECT_EQ(RunDrain(options_, out_, err_), 0);
  EXPECT_THAT((*reader)->Next(), HasReason(kDraining));
}

TEST_F(DrainCommandTest, ServerThatIsNotThereIsNamed) {
  server_.reset();
  EXPECT_EQ(RunDrain(options_, out_, err_), 1);
  EXPECT_THAT(err_.str(), HasSubstr("cpfeed drain: "));
}

}  // namespace
}  // namespace cpfeed

#include "client/cli/feed_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/command_status.h"
#include "server/server.h"
#include "tests/client/documents/input_files.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::MakeFolder;
using ::cpfeed::testing::WriteFile;
using ::nlohmann::json;
using ::testing::HasSubstr;

struct Result {
  int status = -1;
  std::string out, err;
};

class FeedCommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ServerOptions options;
    options.listen = "127.0.0.1:0";
    auto server = Server::Start(options);
    ASSERT_THAT(server, IsOk());
    server_ = *std::move(server);
    options_.server = absl::StrCat("127.0.0.1:", server_->port());
    options_.session = "feed";
    options_.create = true;
    // A document of ten tokens and one of two, in rows of four.
    options_.pack.inputs = {WriteFile(MakeFolder(), "x.jsonl",
                                      "[1,2,3,4,5,6,7,8,9,10]\n[11,12]\n")};
    options_.pack.row_width = 4;
    options_.pack.long_documents = "cut";
    options_.pack.strategy = "first_fit";
  }

  Result Feed() {
    std::ostringstream out, err;
    Result result;
    result.status = RunFeed(options_, out, err);
    result.out = out.str();
    result.err = err.str();
    return result;
  }

  std::unique_ptr<Server> server_;
  FeedOptions options_;
};

TEST_F(FeedCommandTest, CountsDocumentsThatEndAndThePiecesOfOthers) {
  options_.steps = 2;
  const Result first = Feed();
  ASSERT_EQ(first.status, kExitOk) << first.err;
  EXPECT_EQ(first.out,
            "fed 2 steps: 2 sequences, 0 documents to their end, 8 tokens, 0 "
            "padding\n");
}

TEST_F(FeedCommandTest, JsonHasTheSameCounts) {
  options_.json = true;
  const Result result = Feed();
  ASSERT_EQ(result.status, kExitOk) << result.out;
  EXPECT_EQ(json::parse(result.out), json({{"status", "OK"},
                                           {"steps", 3},
                                           {"sequences", 4},
                                           {"documents", 2},
                                           {"tokens", 12},
                                           {"padding_tokens", 0}}));
}

TEST_F(FeedCommandTest, WithoutResumeASessionThatHasBatchesIsLeftAlone) {
  options_.steps = 1;
  ASSERT_EQ(Feed().status, kExitOk);
  const Result again = Feed();
  EXPECT_EQ(again.status, kExitRefused);
  EXPECT_THAT(again.err, HasSubstr("use --resume"));
}

}  // namespace
}  // namespace cpfeed

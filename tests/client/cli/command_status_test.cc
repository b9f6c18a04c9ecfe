#include "client/cli/command_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "absl/status/status.h"
#include "client/cli/json_values.h"
#include "core/base/error.h"

namespace cpfeed {
namespace {

class ReportErrorTest : public ::testing::Test {
 protected:
  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(ReportErrorTest, PeopleReadMessageAndReason) {
  const absl::Status status = InvalidArgument(kBadOption, "cp_size is 0");
  EXPECT_EQ(ReportError("cpfeed plan", status, false, out_, err_),
            kExitRefused);
  EXPECT_EQ(err_.str(), "cpfeed plan: cp_size is 0 (BAD_OPTION)\n");
  EXPECT_EQ(out_.str(), "");
}

TEST_F(ReportErrorTest, ErrorsOfOthersHaveNoReason) {
  EXPECT_EQ(ReportError("cpfeed feed", absl::UnavailableError("no server"),
                        false, out_, err_),
            kExitFailure);
  EXPECT_EQ(err_.str(), "cpfeed feed: no server\n");
}

TEST_F(ReportErrorTest, JsonStaysJsonWhateverBytesAFlagHas) {
  const absl::Status status =
      InvalidArgument(kBadOption, "objective \xff is none");
  EXPECT_EQ(ReportError("cpfeed plan", status, true, out_, err_), kExitRefused);
  EXPECT_EQ(err_.str(), "");
  const Json json = Json::parse(out_.str());
  EXPECT_EQ(json["status"], "INVALID_ARGUMENT");
  EXPECT_EQ(json["reason"], "BAD_OPTION");
  EXPECT_EQ(json["message"], "objective \xef\xbf\xbd is none");
}

}  // namespace
}  // namespace cpfeed

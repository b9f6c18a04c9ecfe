#include "client/cli/progress.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "absl/time/time.h"

namespace cpfeed {
namespace {

TEST(ProgressTest, WritesALineEveryTwoSeconds) {
  absl::Time now = absl::UnixEpoch();
  std::ostringstream err;
  Progress progress(err, [&] { return now; });
  int calls = 0;
  const auto line = [&] { return "line " + std::to_string(++calls); };
  progress.Report(line);
  now += absl::Milliseconds(1999);
  progress.Report(line);
  EXPECT_EQ(err.str(), "");
  EXPECT_EQ(calls, 0);  // Lines that are not written are not made.
  now += absl::Milliseconds(1);
  progress.Report(line);
  progress.Report(line);
  EXPECT_EQ(err.str(), "line 1\n");
  now += absl::Seconds(5);
  progress.Report(line);
  now += absl::Seconds(1);
  progress.Report(line);
  EXPECT_EQ(err.str(), "line 1\nline 2\n");
}

}  // namespace
}  // namespace cpfeed

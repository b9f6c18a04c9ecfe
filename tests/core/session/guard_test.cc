// Linked with a session that lacks one of its guards.

#include <gtest/gtest.h>

#include "core/session/session_config.h"
#include "tests/core/session/state_space.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::Explore;

TEST(SessionGuardTest, IsMissedWhenItIsTakenAway) {
  const bool missed = !Explore(Retention::kReplay, 20'000).problem.empty() ||
                      !Explore(Retention::kRetain, 20'000).problem.empty();
  EXPECT_TRUE(missed);
}

}  // namespace
}  // namespace cpfeed

#include <gtest/gtest.h>

#include "core/session/session_config.h"
#include "tests/core/session/state_space.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::Exploration;
using ::cpfeed::testing::Explore;

TEST(SessionStateSpaceTest, ContractHoldsInEveryOrderOfEvents) {
  const Exploration found = Explore(Retention::kReplay, 100'000);
  EXPECT_EQ(found.problem, "");
  EXPECT_GE(found.states, 100'000);
  EXPECT_GE(found.completions, 5'000);
  RecordProperty("transitions", static_cast<int>(found.transitions));
}

TEST(SessionStateSpaceTest, ContractHoldsWhereStepsAreRetained) {
  const Exploration found = Explore(Retention::kRetain, 30'000);
  EXPECT_EQ(found.problem, "");
  EXPECT_GE(found.states, 30'000);
}

}  // namespace
}  // namespace cpfeed

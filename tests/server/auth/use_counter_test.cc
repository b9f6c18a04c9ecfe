// Leases of what a principal may use at once.

#include "server/auth/use_counter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "core/base/error.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::StatusIs;
using ::testing::HasSubstr;

TEST(UseCounterTest, TakesUpToTheBoundAndGivesBack) {
  UseCounter plans("plans");
  auto first = plans.Take("a", 2);
  const auto second = plans.Take("a", 2);
  ASSERT_THAT(first, IsOk());
  ASSERT_THAT(second, IsOk());
  const auto third = plans.Take("a", 2);
  EXPECT_THAT(third, StatusIs(absl::StatusCode::kResourceExhausted,
                              HasSubstr("a has 2 plans")));
  EXPECT_THAT(third.status(), HasReason(kQuota));
  first->reset();
  EXPECT_THAT(plans.Take("a", 2), IsOk());
}

TEST(UseCounterTest, PrincipalsHaveTheirOwnAndZeroIsNoBound) {
  UseCounter plans("plans");
  const auto of_a = plans.Take("a", 1);
  EXPECT_THAT(plans.Take("b", 1), IsOk());
  EXPECT_THAT(plans.Take("a", 0), IsOk());
}

}  // namespace
}  // namespace cpfeed

#include "core/base/status_macros.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::IsOkAndHolds;

absl::Status ReturnIfError(absl::Status status, bool& reached) {
  CF_RETURN_IF_ERROR(std::move(status));
  reached = true;
  return absl::OkStatus();
}

absl::StatusOr<int> Sum(absl::StatusOr<int> a, absl::StatusOr<int> b) {
  CF_ASSIGN_OR_RETURN(const int first, a);
  CF_ASSIGN_OR_RETURN(int second, std::move(b));
  second += first;
  return second;
}

absl::StatusOr<int> Unwrap(absl::StatusOr<std::unique_ptr<int>> boxed) {
  CF_ASSIGN_OR_RETURN(const std::unique_ptr<int> box, std::move(boxed));
  return *box;
}

TEST(StatusMacrosTest, ErrorIsReturnedAtOnce) {
  bool reached = false;
  EXPECT_EQ(ReturnIfError(absl::InternalError("x"), reached),
            absl::InternalError("x"));
  EXPECT_FALSE(reached);
  EXPECT_THAT(ReturnIfError(absl::OkStatus(), reached), IsOk());
  EXPECT_TRUE(reached);
}

TEST(StatusMacrosTest, ValueIsAssignedOrItsErrorReturned) {
  EXPECT_THAT(Sum(2, 3), IsOkAndHolds(5));
  EXPECT_EQ(Sum(absl::InternalError("a"), 3).status(),
            absl::InternalError("a"));
  EXPECT_EQ(Sum(2, absl::InternalError("b")).status(),
            absl::InternalError("b"));
}

TEST(StatusMacrosTest, ValueMayBeMovedOnly) {
  EXPECT_THAT(Unwrap(std::make_unique<int>(7)), IsOkAndHolds(7));
}

TEST(StatusMacrosDeathTest, BrokenInvariantEndsTheProcessWithItsText) {
  const int sum = 4;
  CF_CHECK(sum == 4);
  EXPECT_DEATH(CF_CHECK(sum == 5), "broken invariant: sum == 5");
}

}  // namespace
}  // namespace cpfeed

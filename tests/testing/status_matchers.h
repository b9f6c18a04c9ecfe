// gMock matchers for absl::Status and absl::StatusOr, under the names that
// later Abseil versions use.

#ifndef CPFEED_TESTS_TESTING_STATUS_MATCHERS_H_
#define CPFEED_TESTS_TESTING_STATUS_MATCHERS_H_

#include <gmock/gmock.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"

namespace cpfeed::testing {

inline const absl::Status& StatusOf(const absl::Status& status) {
  return status;
}
template <class T>
const absl::Status& StatusOf(const absl::StatusOr<T>& statusor) {
  return statusor.status();
}

// EXPECT_THAT(DoIt(), IsOk());
MATCHER(IsOk, "is OK") {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).ok();
}

// EXPECT_THAT(Compute(), IsOkAndHolds(7));
MATCHER_P(IsOkAndHolds, value_matcher, "is OK and holds a matching value") {
  if (!arg.ok()) {
    *result_listener << arg.status().ToString();
    return false;
  }
  return ::testing::ExplainMatchResult(value_matcher, *arg, result_listener);
}

// EXPECT_THAT(DoIt(), StatusIs(absl::StatusCode::kInvalidArgument,
//                              HasSubstr("row 0")));
MATCHER_P2(StatusIs, code, message_matcher, "has code and matching message") {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).code() == code &&
         ::testing::ExplainMatchResult(message_matcher,
                                       std::string(StatusOf(arg).message()),
                                       result_listener);
}

// EXPECT_THAT(DoIt(), HasReason(kNotDivisible));
MATCHER_P(HasReason, reason, "has the reason") {
  *result_listener << StatusOf(arg).ToString();
  return ReasonOf(StatusOf(arg)) == reason;
}

}  // namespace cpfeed::testing

#endif  // CPFEED_TESTS_TESTING_STATUS_MATCHERS_H_

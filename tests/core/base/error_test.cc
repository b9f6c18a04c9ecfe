#include "core/base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::StatusIs;
using ::testing::Eq;

TEST(ErrorTest, CarriesCodeReasonAndMessage) {
  const absl::Status status =
      MakeError(absl::StatusCode::kAborted, kFenced, "incarnation is 3");
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kAborted, Eq("incarnation is 3")));
  EXPECT_EQ(ReasonOf(status), "FENCED");
  EXPECT_THAT(InvalidArgument(kBadOption, "x"),
              StatusIs(absl::StatusCode::kInvalidArgument, Eq("x")));
}

TEST(ErrorTest, OtherStatusesHaveNoReason) {
  EXPECT_EQ(ReasonOf(absl::OkStatus()), "");
  EXPECT_EQ(ReasonOf(absl::InternalError("broken")), "");
}

TEST(ErrorTest, PlacesComeInFrontAndNothingElseChanges) {
  const absl::Status inner =
      InvalidArgument(kNotDivisible, "sequence 3 has 10 tokens");
  const absl::Status outer = Annotate(Annotate(inner, "row 1"), "step 412");
  EXPECT_THAT(outer, StatusIs(absl::StatusCode::kInvalidArgument,
                              Eq("step 412: row 1: sequence 3 has 10 tokens")));
  EXPECT_THAT(outer, HasReason(kNotDivisible));
}

TEST(ErrorTest, WrongFieldIsNamedInTheMessageAndBesideIt) {
  const absl::Status status =
      InvalidField("limits.max_batch_bytes", "is 0; must be 1 to 9");
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       Eq("limits.max_batch_bytes is 0; must be 1 to 9")));
  EXPECT_THAT(status, HasReason(kBadOption));
  EXPECT_EQ(FieldOf(Annotate(status, "session")), "limits.max_batch_bytes");
  EXPECT_EQ(FieldOf(InvalidArgument(kBadOption, "x")), "");
}

TEST(ErrorTest, RetryDelayIsCarriedAlong) {
  const absl::Status status = WithRetryDelay(
      absl::ResourceExhaustedError("full"), absl::Milliseconds(250));
  EXPECT_EQ(RetryDelayOf(Annotate(status, "batch 3")), absl::Milliseconds(250));
  EXPECT_EQ(RetryDelayOf(absl::UnavailableError("gone")), absl::ZeroDuration());
  EXPECT_EQ(RetryDelayOf(absl::OkStatus()), absl::ZeroDuration());
}

TEST(ErrorTest, OkHasNoPlace) {
  EXPECT_EQ(Annotate(absl::OkStatus(), "row 1"), absl::OkStatus());
}

}  // namespace
}  // namespace cpfeed

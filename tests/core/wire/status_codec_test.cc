#include "core/wire/status_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <climits>
#include <cstdint>

#include "absl/time/time.h"
#include "core/base/error.h"
#include "google/rpc/error_details.pb.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::StatusIs;
using ::testing::Eq;

TEST(StatusCodecTest, EveryCodeRoundTripsWithItsReason) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status = MakeError(static_cast<absl::StatusCode>(code),
                                          kNotDivisible, "row 1: 10 tokens");
    EXPECT_EQ(StatusToProto(status).code(), code);
    EXPECT_EQ(StatusFromProto(StatusToProto(status)), status);
  }
}

TEST(StatusCodecTest, StatusWithoutReasonHasNone) {
  const absl::Status status = absl::UnavailableError("gone");
  EXPECT_EQ(StatusToProto(status).details_size(), 0);
  EXPECT_EQ(StatusFromProto(StatusToProto(status)), status);
}

TEST(StatusCodecTest, OkIsOk) {
  EXPECT_EQ(StatusToProto(absl::OkStatus()).code(), 0);
  EXPECT_EQ(StatusFromProto(google::rpc::Status()), absl::OkStatus());
}

TEST(StatusCodecTest, ReasonTravelsAsErrorInfoOfOurDomain) {
  const google::rpc::Status proto =
      StatusToProto(InvalidArgument(kBadOption, "x"));
  ASSERT_EQ(proto.details_size(), 1);
  google::rpc::ErrorInfo info;
  ASSERT_TRUE(proto.details(0).UnpackTo(&info));
  EXPECT_EQ(info.reason(), "BAD_OPTION");
  EXPECT_EQ(info.domain(), "cpfeed.dev");
}

TEST(StatusCodecTest, WrongFieldTravelsAsBadRequest) {
  const google::rpc::Status proto =
      StatusToProto(InvalidField("topology.cp_size", "is 0; must be 1 to 4"));
  ASSERT_EQ(proto.details_size(), 2);
  google::rpc::BadRequest bad_request;
  ASSERT_TRUE(proto.details(1).UnpackTo(&bad_request));
  ASSERT_EQ(bad_request.field_violations_size(), 1);
  EXPECT_EQ(bad_request.field_violations(0).field(), "topology.cp_size");
  EXPECT_EQ(bad_request.field_violations(0).description(),
            "topology.cp_size is 0; must be 1 to 4");
}

TEST(StatusCodecTest, WhatMayBeTriedAgainSaysWhen) {
  const absl::Status draining = StatusFromProto(StatusToProto(
      MakeError(absl::StatusCode::kUnavailable, kDraining, "later")));
  EXPECT_EQ(RetryDelayOf(draining), absl::Seconds(1));
  EXPECT_THAT(draining, HasReason(kDraining));
  const absl::Status full = StatusFromProto(StatusToProto(WithRetryDelay(
      MakeError(absl::StatusCode::kResourceExhausted, kMemoryPressure, "full"),
      absl::Milliseconds(500))));
  EXPECT_EQ(RetryDelayOf(full), absl::Milliseconds(500));
  EXPECT_EQ(RetryDelayOf(StatusFromProto(StatusToProto(
                MakeError(absl::StatusCode::kAborted, kFenced, "newer")))),
            absl::ZeroDuration());
}

TEST(StatusCodecTest, DelayThatNobodyWaitsForIsCut) {
  google::rpc::Status proto;
  proto.set_code(14);
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(INT64_MAX);
  retry.mutable_retry_delay()->set_nanos(INT_MIN);
  proto.add_details()->PackFrom(retry);
  EXPECT_EQ(RetryDelayOf(StatusFromProto(proto)), absl::Hours(1));
  retry.mutable_retry_delay()->set_seconds(-5);
  proto.mutable_details(0)->PackFrom(retry);
  EXPECT_EQ(RetryDelayOf(StatusFromProto(proto)), absl::ZeroDuration());
}

TEST(StatusCodecTest, CodeThatIsNoneIsUnknown) {
  for (const int code : {17, 100, -1, INT_MAX, INT_MIN}) {
    google::rpc::Status proto;
    proto.set_code(code);
    proto.set_message("odd");
    EXPECT_THAT(StatusFromProto(proto),
                StatusIs(absl::StatusCode::kUnknown, Eq("odd")))
        << code;
  }
}

TEST(StatusCodecTest, OtherDetailsAreLeftOut) {
  google::rpc::Status proto = StatusToProto(InvalidArgument(kBadOption, "x"));
  google::rpc::ErrorInfo foreign;
  foreign.set_reason("SERVICE_DISABLED");
  foreign.set_domain("example.com");
  google::rpc::Status mixed;
  mixed.set_code(3);
  mixed.add_details()->PackFrom(foreign);
  EXPECT_THAT(StatusFromProto(mixed), HasReason(""));
  google::protobuf::Any& broken = *mixed.add_details();
  broken.set_type_url(proto.details(0).type_url());
  broken.set_value("\xff\xff");
  *mixed.add_details() = proto.details(0);
  EXPECT_THAT(StatusFromProto(mixed), HasReason(kBadOption));
}

}  // namespace
}  // namespace cpfeed

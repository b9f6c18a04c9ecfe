#include "client/retry_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/base/error.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Case {
  std::string name;
  absl::StatusCode code;
  std::string reason;
  RetryAction loader;
  RetryAction consumer;
};

class ActionTest : public ::testing::TestWithParam<Case> {};

TEST_P(ActionTest, IsDecidedByCodeAndReason) {
  const Case& c = GetParam();
  const absl::Status status = c.reason.empty()
                                  ? absl::Status(c.code, "x")
                                  : MakeError(c.code, c.reason, "x");
  EXPECT_EQ(ActionFor(ClientRole::kLoader, status), c.loader);
  EXPECT_EQ(ActionFor(ClientRole::kConsumer, status), c.consumer);
}

using enum RetryAction;

INSTANTIATE_TEST_SUITE_P(
    All, ActionTest,
    ::testing::ValuesIn(std::vector<Case>{
        {"ServerGone", absl::StatusCode::kUnavailable, "", kReopen, kReopen},
        {"Draining", absl::StatusCode::kUnavailable, kDraining, kReopen,
         kReopen},
        {"NobodyAnswers", absl::StatusCode::kDeadlineExceeded, "", kReopen,
         kReopen},
        {"CutByAServerThatStops", absl::StatusCode::kCancelled, "", kReopen,
         kReopen},
        {"NotMadeYet", absl::StatusCode::kNotFound, kSessionNotFound, kReopen,
         kReopen},
        {"LeaseRanOut", absl::StatusCode::kNotFound, kSessionExpired, kReopen,
         kReopen},
        {"Deleted", absl::StatusCode::kNotFound, kSessionDeleted, kGiveUp,
         kGiveUp},
        {"Rewound", absl::StatusCode::kAborted, kRewound, kReopen, kGiveUp},
        {"Fenced", absl::StatusCode::kAborted, kFenced, kGiveUp, kGiveUp},
        {"OutOfOrder", absl::StatusCode::kFailedPrecondition, kOutOfOrder,
         kReopenOnce, kGiveUp},
        {"Conflict", absl::StatusCode::kAlreadyExists, kSequenceConflict,
         kGiveUp, kGiveUp},
        {"Damaged", absl::StatusCode::kDataLoss, kChecksumMismatch, kReopenOnce,
         kReopenOnce},
        {"Full", absl::StatusCode::kResourceExhausted, kMemoryPressure, kReopen,
         kReopen},
        {"Quota", absl::StatusCode::kResourceExhausted, kQuota, kReopen,
         kReopen},
        {"Freed", absl::StatusCode::kOutOfRange, kCursorExpired, kGiveUp,
         kGiveUp},
        {"OtherTopology", absl::StatusCode::kFailedPrecondition,
         kTopologyMismatch, kGiveUp, kGiveUp},
        {"OtherCursor", absl::StatusCode::kFailedPrecondition, kCursorMismatch,
         kGiveUp, kGiveUp},
        {"WrongBatch", absl::StatusCode::kInvalidArgument, kNotDivisible,
         kGiveUp, kGiveUp},
        {"Poison", absl::StatusCode::kInternal, kPoisoned, kGiveUp, kGiveUp},
        {"NoIdentity", absl::StatusCode::kUnauthenticated, "", kGiveUp,
         kGiveUp},
    }),
    [](const auto& info) { return info.param.name; });

// A policy on a clock that only its own pauses turn.
class PolicyTest : public ::testing::Test {
 protected:
  RetryPolicy Make(absl::Duration give_up_after = absl::Hours(1)) {
    return RetryPolicy(
        ClientRole::kLoader,
        {.first_pause = absl::Milliseconds(100),
         .most_pause = absl::Seconds(1),
         .give_up_after = give_up_after,
         .now = [this] { return now_; },
         .sleep =
             [this](absl::Duration pause) {
               pauses_.push_back(absl::ToInt64Milliseconds(pause));
               now_ += pause;
             },
         .random = [this] { return random_; }});
  }

  absl::Duration now_;
  double random_ = 0;
  std::vector<int64_t> pauses_;
  const absl::Status gone_ = absl::UnavailableError("gone");
};

TEST_F(PolicyTest, PausesDoubleUpToTheLongestAndProgressBeginsAnew) {
  RetryPolicy policy = Make();
  for (int i = 0; i < 6; ++i) {
    EXPECT_THAT(policy.PauseOrGiveUp(gone_), IsOk());
  }
  EXPECT_THAT(pauses_, ElementsAre(100, 200, 400, 800, 1000, 1000));
  policy.MarkProgress();
  EXPECT_THAT(policy.PauseOrGiveUp(gone_), IsOk());
  EXPECT_EQ(pauses_.back(), 100);
}

TEST_F(PolicyTest, RandomnessCutsAPauseByHalfAtMost) {
  RetryPolicy policy = Make();
  random_ = 0.999;
  EXPECT_THAT(policy.PauseOrGiveUp(gone_), IsOk());
  random_ = 0.5;
  EXPECT_THAT(policy.PauseOrGiveUp(gone_), IsOk());
  EXPECT_THAT(pauses_, ElementsAre(50, 150));
}

TEST_F(PolicyTest, PauseIsAtLeastWhatTheServerAsksFor) {
  RetryPolicy policy = Make();
  EXPECT_THAT(policy.PauseOrGiveUp(WithRetryDelay(gone_, absl::Seconds(3))),
              IsOk());
  EXPECT_THAT(pauses_, ElementsAre(3000));
}

TEST_F(PolicyTest, GivesUpWhenNothingComesThroughForTooLong) {
  RetryPolicy policy = Make(absl::Seconds(1));
  absl::Status status;
  while (status.ok()) status = policy.PauseOrGiveUp(gone_);
  EXPECT_THAT(pauses_, ElementsAre(100, 200, 400));
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable,
                               HasSubstr("nothing came through for 700ms and 4 "
                                         "attempts: gone")));
}

TEST_F(PolicyTest, DamagedBytesAreAskedForOnceMore) {
  RetryPolicy policy = Make();
  const absl::Status damaged =
      MakeError(absl::StatusCode::kDataLoss, kChecksumMismatch, "x");
  EXPECT_THAT(policy.PauseOrGiveUp(damaged), IsOk());
  EXPECT_THAT(policy.PauseOrGiveUp(gone_), IsOk());
  EXPECT_THAT(policy.PauseOrGiveUp(damaged), HasReason(kChecksumMismatch));
  policy.MarkProgress();
  EXPECT_THAT(policy.PauseOrGiveUp(damaged), IsOk());
}

TEST_F(PolicyTest, WhatIsNoneToGoOnAfterIsReturnedAtOnce) {
  RetryPolicy policy = Make();
  const absl::Status fenced =
      MakeError(absl::StatusCode::kAborted, kFenced, "a newer one");
  EXPECT_EQ(policy.PauseOrGiveUp(fenced), fenced);
  EXPECT_THAT(pauses_, ElementsAre());
}

}  // namespace
}  // namespace cpfeed

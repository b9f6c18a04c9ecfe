// Steps reach every consumer in order: attach, credit, skew, acknowledgements.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/error.h"
#include "core/session/session.h"
#include "tests/core/session/session_events.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::ConfigOf;
using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::IsOkAndHolds;
using ::cpfeed::testing::PutAll;
using ::cpfeed::testing::SendAll;
using ::cpfeed::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Two ranks with two consumers each.
class SessionConsumerTest : public ::testing::Test {
 protected:
  static SessionConfig FourConsumers() {
    SessionConfig config = ConfigOf({"a"});
    config.cp_size = 2;
    config.consumers_per_cp_rank = 2;
    config.max_step_skew = 3;
    return config;
  }

  SessionConsumerTest() : session_(FourConsumers()) {
    producer_ = *session_.OpenProducer("a", 0);
  }

  // With credit for everything.
  int64_t Attach(int cp_rank, int consumer,
                 std::optional<int64_t> first_step = {}) {
    const auto connection =
        session_.Attach(cp_rank, consumer, 0, 0, first_step);
    EXPECT_THAT(connection, IsOk());
    EXPECT_THAT(session_.AddCredit(*connection, 1000), IsOk());
    return *connection;
  }

  std::vector<int64_t> AttachAll() {
    return {Attach(0, 0), Attach(0, 1), Attach(1, 0), Attach(1, 1)};
  }

  Delivery::Kind NextKind(int64_t connection) {
    return session_.Next(connection)->kind;
  }

  Session session_;
  int64_t producer_ = 0;
};

TEST_F(SessionConsumerTest, EveryConsumerGetsEveryStepInOrder) {
  const std::vector<int64_t> consumers = AttachAll();
  for (const int64_t consumer : consumers) {
    EXPECT_EQ(NextKind(consumer), Delivery::Kind::kNothing);
  }
  PutAll(session_, producer_, 0, 2);
  for (const int64_t consumer : consumers) {
    EXPECT_THAT(SendAll(session_, consumer), ElementsAre(0, 1));
  }
  PutAll(session_, producer_, 2, 1);
  for (const int64_t consumer : consumers) {
    EXPECT_THAT(SendAll(session_, consumer), ElementsAre(2));
  }
}

TEST_F(SessionConsumerTest, ConsumerThatComesLateMissesNothing) {
  PutAll(session_, producer_, 0, 2);
  EXPECT_THAT(SendAll(session_, Attach(1, 1)), ElementsAre(0, 1));
}

TEST_F(SessionConsumerTest, StepIsFreedWhenTheLastConsumerHasIt) {
  PutAll(session_, producer_, 0, 3);
  const std::vector<int64_t> consumers = AttachAll();
  for (const int64_t consumer : consumers) SendAll(session_, consumer);
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_THAT(session_.Ack(consumers[i], 1), IsOk());
    EXPECT_EQ(session_.first_held_step(), 0);
  }
  EXPECT_EQ(session_.charged_bytes(), 12);
  ASSERT_THAT(session_.Ack(consumers[3], 0), IsOk());
  EXPECT_EQ(session_.first_held_step(), 1);
  ASSERT_THAT(session_.Ack(consumers[3], 2), IsOk());  // Covers 1 as well.
  EXPECT_EQ(session_.first_held_step(), 2);
  EXPECT_EQ(session_.charged_bytes(), 4);
  EXPECT_FALSE(session_.all_acked());
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_THAT(session_.Ack(consumers[i], 2), IsOk());
  }
  EXPECT_TRUE(session_.all_acked());
  EXPECT_EQ(session_.charged_bytes(), 0);
}

TEST_F(SessionConsumerTest, AcknowledgementsDoNotGoBack) {
  PutAll(session_, producer_, 0, 3);
  const int64_t consumer = Attach(0, 0);
  SendAll(session_, consumer);
  ASSERT_THAT(session_.Ack(consumer, 2), IsOk());
  ASSERT_THAT(session_.Ack(consumer, 0), IsOk());
  EXPECT_EQ(session_.consumers()[0].acked_step, 2);
}

TEST_F(SessionConsumerTest, StepThatWasNotSentCannotBeAcknowledged) {
  PutAll(session_, producer_, 0, 3);
  const int64_t consumer = Attach(0, 0);
  ASSERT_THAT(session_.TrySend(consumer, 1), IsOkAndHolds(true));
  const absl::Status status = session_.Ack(consumer, 1);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                               AllOf(HasSubstr("step 1 is acknowledged"),
                                     HasSubstr("last one sent is 0"))));
  EXPECT_THAT(status, HasReason(kProtocolError));
}

TEST_F(SessionConsumerTest, FastConsumerWaitsForTheSlowestOne) {
  // Skew 3: with nothing acknowledged by the slowest, steps 0, 1 and 2.
  PutAll(session_, producer_, 0, 10);
  const std::vector<int64_t> consumers = AttachAll();
  EXPECT_THAT(SendAll(session_, consumers[0]), ElementsAre(0, 1, 2));
  ASSERT_THAT(session_.Ack(consumers[0], 2), IsOk());
  EXPECT_THAT(SendAll(session_, consumers[0]), IsEmpty());
  for (size_t i = 1; i < 4; ++i) {
    SendAll(session_, consumers[i]);
    ASSERT_THAT(session_.Ack(consumers[i], 1), IsOk());
  }
  EXPECT_THAT(SendAll(session_, consumers[0]), ElementsAre(3, 4));
}

TEST_F(SessionConsumerTest, ConsumerThatNeverAttachedHoldsTheOthersBack) {
  PutAll(session_, producer_, 0, 10);
  for (const int64_t consumer : {Attach(0, 0), Attach(0, 1), Attach(1, 0)}) {
    SendAll(session_, consumer);
    ASSERT_THAT(session_.Ack(consumer, 2), IsOk());
    EXPECT_EQ(NextKind(consumer), Delivery::Kind::kNothing);
  }
  EXPECT_EQ(session_.first_held_step(), 0);
}

TEST_F(SessionConsumerTest, StepIsSentOnlyWithinCredit) {
  PutAll(session_, producer_, 0, 3);
  const int64_t consumer = *session_.Attach(0, 0, 0, 0, {});
  ASSERT_THAT(session_.AddCredit(consumer, 100), IsOk());
  EXPECT_THAT(session_.TrySend(consumer, 60), IsOkAndHolds(true));
  EXPECT_THAT(session_.TrySend(consumer, 60), IsOkAndHolds(false));
  EXPECT_EQ(session_.Next(consumer)->step, 1);  // Still the next.
  ASSERT_THAT(session_.AddCredit(consumer, 20), IsOk());
  EXPECT_THAT(session_.TrySend(consumer, 60), IsOkAndHolds(true));
  EXPECT_THAT(session_.TrySend(consumer, 1), IsOkAndHolds(false));
}

TEST_F(SessionConsumerTest, LargeStepIsSentToAConsumerThatHoldsNothing) {
  PutAll(session_, producer_, 0, 3);
  const int64_t consumer = *session_.Attach(0, 0, 0, 0, {});
  EXPECT_THAT(session_.TrySend(consumer, 500), IsOkAndHolds(true));
  EXPECT_THAT(session_.TrySend(consumer, 0), IsOkAndHolds(false));  // Owes 500.
  ASSERT_THAT(session_.AddCredit(consumer, 499), IsOk());
  EXPECT_THAT(session_.TrySend(consumer, 0), IsOkAndHolds(false));
  ASSERT_THAT(session_.Ack(consumer, 0), IsOk());
  EXPECT_THAT(session_.TrySend(consumer, 500), IsOkAndHolds(true));
}

TEST_F(SessionConsumerTest, CreditIsBounded) {
  const int64_t consumer = Attach(0, 0);
  EXPECT_THAT(session_.AddCredit(consumer, -1),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("credit of -1 bytes")));
  EXPECT_THAT(session_.AddCredit(consumer, int64_t{1} << 50),
              HasReason(kProtocolError));
  EXPECT_THAT(session_.AddCredit(consumer, INT64_MAX),
              HasReason(kProtocolError));
  EXPECT_THAT(session_.AddCredit(consumer, (int64_t{1} << 50) - 1000), IsOk());
}

TEST_F(SessionConsumerTest, ReattachGoesOnBehindTheLastAcknowledgedStep) {
  PutAll(session_, producer_, 0, 3);
  const int64_t consumer = Attach(0, 0);
  SendAll(session_, consumer);
  ASSERT_THAT(session_.Ack(consumer, 0), IsOk());
  session_.CloseConsumer(consumer);
  EXPECT_THAT(session_.Next(consumer), HasReason(kFenced));
  EXPECT_THAT(SendAll(session_, Attach(0, 0)), ElementsAre(1, 2));
}

TEST_F(SessionConsumerTest, ReattachMayNameItsFirstStep) {
  PutAll(session_, producer_, 0, 3);
  const int64_t consumer = Attach(0, 0);
  SendAll(session_, consumer);
  ASSERT_THAT(session_.Ack(consumer, 0), IsOk());
  // It holds step 1, too: the acknowledgement was lost.
  EXPECT_THAT(SendAll(session_, Attach(0, 0, 2)), ElementsAre(2));
  EXPECT_EQ(session_.consumers()[0].acked_step, 1);
  // It lost all, and the others still need step 0.
  EXPECT_THAT(SendAll(session_, Attach(0, 0, 0)), ElementsAre(0, 1, 2));
}

TEST_F(SessionConsumerTest, FreedStepHasExpired) {
  PutAll(session_, producer_, 0, 3);
  for (const int64_t consumer : AttachAll()) {
    SendAll(session_, consumer);
    ASSERT_THAT(session_.Ack(consumer, 1), IsOk());
  }
  const auto attached = session_.Attach(1, 0, 0, 0, 1);
  EXPECT_THAT(attached, StatusIs(absl::StatusCode::kOutOfRange,
                                 AllOf(HasSubstr("step 1 is freed"),
                                       HasSubstr("first held one is 2"))));
  EXPECT_THAT(attached, HasReason(kCursorExpired));
  EXPECT_THAT(session_.Attach(1, 0, 0, 0, -1), HasReason(kCursorExpired));
}

TEST_F(SessionConsumerTest, StepsThatWereNeverSentAreNotJumpedOver) {
  PutAll(session_, producer_, 0, 3);
  EXPECT_THAT(session_.Attach(0, 0, 0, 0, 1), HasReason(kCursorMismatch));
  const int64_t consumer = Attach(0, 0);
  ASSERT_THAT(session_.TrySend(consumer, 1), IsOkAndHolds(true));
  const auto attached = session_.Attach(0, 0, 0, 0, 2);
  EXPECT_THAT(attached,
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("first_step is 2; must be at most 1, the "
                                 "first that consumer 0 of cp_rank 0")));
  EXPECT_THAT(attached, HasReason(kCursorMismatch));
  EXPECT_THAT(SendAll(session_, Attach(0, 0, 1)), ElementsAre(1, 2));
  // Going back does not make it forget what it was sent.
  EXPECT_THAT(session_.Attach(0, 0, 0, 0, 0), IsOk());
  EXPECT_THAT(session_.Attach(0, 0, 0, 0, 3), IsOk());
  EXPECT_THAT(session_.Attach(0, 0, 0, 0, 4), HasReason(kCursorMismatch));
}

TEST_F(SessionConsumerTest, RefusedAttachLeavesTheOldStreamAlone) {
  PutAll(session_, producer_, 0, 1);
  const int64_t consumer = Attach(0, 0);
  EXPECT_FALSE(session_.Attach(0, 0, 0, 0, 7).ok());
  EXPECT_FALSE(session_.Attach(0, 0, -2, 0, {}).ok());
  EXPECT_FALSE(session_.Attach(0, 0, 0, 9, {}).ok());
  EXPECT_THAT(SendAll(session_, consumer), ElementsAre(0));
}

TEST_F(SessionConsumerTest, NewStreamFencesTheOldOne) {
  PutAll(session_, producer_, 0, 1);
  const int64_t old = Attach(0, 0);
  const int64_t current = Attach(0, 0);
  EXPECT_THAT(session_.Next(old),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("fenced")));
  EXPECT_THAT(session_.TrySend(old, 1), HasReason(kFenced));
  EXPECT_THAT(session_.Ack(old, 0), HasReason(kFenced));
  EXPECT_THAT(session_.AddCredit(old, 1), HasReason(kFenced));
  session_.CloseConsumer(old);
  EXPECT_THAT(SendAll(session_, current), ElementsAre(0));
}

TEST_F(SessionConsumerTest, OlderIncarnationIsFenced) {
  ASSERT_THAT(session_.Attach(0, 1, 5, 0, {}), IsOk());
  const auto attached = session_.Attach(0, 1, 4, 0, {});
  EXPECT_THAT(attached, StatusIs(absl::StatusCode::kAborted,
                                 AllOf(HasSubstr("incarnation is 4"),
                                       HasSubstr("incarnation 5"))));
  EXPECT_THAT(attached, HasReason(kFenced));
  EXPECT_THAT(session_.Attach(0, 0, 4, 0, {}), IsOk());  // Another consumer.
}

TEST_F(SessionConsumerTest, OtherGenerationIsFenced) {
  EXPECT_THAT(session_.Attach(0, 0, 0, session_.generation(), {}), IsOk());
  const auto attached = session_.Attach(0, 0, 0, 7, {});
  EXPECT_THAT(attached, StatusIs(absl::StatusCode::kAborted,
                                 AllOf(HasSubstr("generation is 7"),
                                       HasSubstr("session's is 1"))));
  EXPECT_THAT(attached, HasReason(kFenced));
}

TEST_F(SessionConsumerTest, StrangersCannotAttach) {
  EXPECT_THAT(session_.Attach(2, 0, 0, 0, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("2")));
  EXPECT_THAT(session_.Attach(-1, 0, 0, 0, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("-1")));
  EXPECT_THAT(session_.Attach(0, 2, 0, 0, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("2")));
  EXPECT_THAT(session_.Attach(0, -1, 0, 0, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("-1")));
}

TEST_F(SessionConsumerTest, EndComesBehindTheLastStepAtEveryConsumer) {
  const std::vector<int64_t> consumers = AttachAll();
  PutAll(session_, producer_, 0, 2);
  SendAll(session_, consumers[0]);
  EXPECT_EQ(NextKind(consumers[0]), Delivery::Kind::kNothing);
  ASSERT_THAT(session_.Finish(producer_, 2), IsOk());
  EXPECT_EQ(NextKind(consumers[0]), Delivery::Kind::kEnd);
  EXPECT_EQ(session_.Next(consumers[0])->step, 2);
  EXPECT_EQ(NextKind(consumers[1]), Delivery::Kind::kStep);
  EXPECT_THAT(SendAll(session_, consumers[1]), ElementsAre(0, 1));
  EXPECT_EQ(NextKind(consumers[1]), Delivery::Kind::kEnd);
}

TEST_F(SessionConsumerTest, SessionWithoutStepsEnds) {
  const int64_t consumer = Attach(0, 0);
  ASSERT_THAT(session_.Finish(producer_, 0), IsOk());
  EXPECT_EQ(NextKind(consumer), Delivery::Kind::kEnd);
  EXPECT_EQ(session_.Next(consumer)->step, 0);
}

TEST(SessionEndTest, EndWaitsForBatchesThatWaitForTheirTurn) {
  Session session(ConfigOf({"a", "b"}));
  const int64_t a = *session.OpenProducer("a", 0);
  const int64_t b = *session.OpenProducer("b", 0);
  const int64_t consumer = *session.Attach(0, 0, 0, 0, {});
  PutAll(session, b, 0, 1);
  ASSERT_THAT(session.Finish(b, 1), IsOk());
  EXPECT_EQ(session.Next(consumer)->kind, Delivery::Kind::kNothing);
  ASSERT_THAT(session.Finish(a, 0), IsOk());
  EXPECT_THAT(SendAll(session, consumer), ElementsAre(0));
  EXPECT_EQ(session.Next(consumer)->kind, Delivery::Kind::kEnd);
}

}  // namespace
}  // namespace cpfeed

// The trainer's side: commits, seeks, retention.

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
using ::cpfeed::testing::DigestOf;
using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::IsOkAndHolds;
using ::cpfeed::testing::Put;
using ::cpfeed::testing::PutAll;
using ::cpfeed::testing::SendAll;
using ::cpfeed::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::FieldsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

int64_t Attach(Session& session, std::optional<int64_t> first_step = {}) {
  const auto consumer = session.Attach(0, 0, 0, 0, first_step);
  EXPECT_THAT(consumer, IsOk());
  EXPECT_THAT(session.AddCredit(*consumer, 1000), IsOk());
  return *consumer;
}

TEST(SessionCommitTest, CommitsAreMonotonic) {
  Session session(ConfigOf({"a"}));
  PutAll(session, *session.OpenProducer("a", 0), 0, 5);
  EXPECT_EQ(session.committed_step(), -1);
  ASSERT_THAT(session.Commit(3), IsOk());
  ASSERT_THAT(session.Commit(1), IsOk());
  EXPECT_EQ(session.committed_step(), 3);
}

TEST(SessionCommitTest, StepThatIsNotPublishedCannotBeCommitted) {
  Session session(ConfigOf({"a"}));
  PutAll(session, *session.OpenProducer("a", 0), 0, 2);
  const absl::Status status = session.Commit(2);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kOutOfRange,
                               AllOf(HasSubstr("step 2 is committed"),
                                     HasSubstr("published one is 1"))));
  EXPECT_THAT(status, HasReason(kCursorMismatch));
}

TEST(SessionCommitTest, ReplayFreesAcknowledgedStepsBeforeTheyAreCommitted) {
  Session session(ConfigOf({"a"}));
  PutAll(session, *session.OpenProducer("a", 0), 0, 3);
  const int64_t consumer = Attach(session);
  SendAll(session, consumer);
  ASSERT_THAT(session.Commit(2), IsOk());
  EXPECT_EQ(session.first_held_step(), 0);  // Not acknowledged.
  ASSERT_THAT(session.Ack(consumer, 1), IsOk());
  EXPECT_EQ(session.first_held_step(), 2);
}

TEST(SessionCommitTest, RetainKeepsStepsUntilTheyAreCommittedAndAcknowledged) {
  SessionConfig config = ConfigOf({"a"});
  config.retention = Retention::kRetain;
  Session session(config);
  PutAll(session, *session.OpenProducer("a", 0), 0, 5);
  const int64_t consumer = Attach(session);
  SendAll(session, consumer);
  ASSERT_THAT(session.Ack(consumer, 3), IsOk());
  EXPECT_EQ(session.first_held_step(), 0);
  ASSERT_THAT(session.Commit(1), IsOk());
  EXPECT_EQ(session.first_held_step(), 2);
  // A restarted consumer gets what the trainer has not committed.
  EXPECT_THAT(SendAll(session, Attach(session, 2)), ElementsAre(2, 3, 4));
  ASSERT_THAT(session.Commit(4), IsOk());
  EXPECT_EQ(session.first_held_step(), 2);  // Committed, not acknowledged.
}

// Two producers, six steps, all sent and acknowledged up to step 3.
class SessionSeekTest : public ::testing::Test {
 protected:
  SessionSeekTest() : session_(ConfigOf({"a", "b"})) {
    a_ = *session_.OpenProducer("a", 1);
    b_ = *session_.OpenProducer("b", 1);
    for (int64_t sequence = 0; sequence < 3; ++sequence) {
      PutAll(session_, a_, sequence, 1);
      PutAll(session_, b_, sequence, 1);
    }
    consumer_ = Attach(session_);
    SendAll(session_, consumer_);
    EXPECT_THAT(session_.Ack(consumer_, 3), IsOk());
  }

  Session session_;
  int64_t a_ = 0;
  int64_t b_ = 0;
  int64_t consumer_ = 0;
};

TEST_F(SessionSeekTest, ReplayGivesTheSameStepsAgain) {
  // Back to behind step 2 = a1: next is b1.
  ASSERT_THAT(session_.Seek(2, {2, 1}, {false, false}), IsOk());
  EXPECT_EQ(session_.next_step(), 3);
  EXPECT_EQ(session_.charged_bytes(), 0);
  const int64_t a = *session_.OpenProducer("a", 2);
  const int64_t b = *session_.OpenProducer("b", 2);
  const int64_t consumer = Attach(session_);
  EXPECT_THAT(Put(session_, a, 2), IsOkAndHolds(IsEmpty()));
  EXPECT_THAT(
      Put(session_, b, 1),
      IsOkAndHolds(ElementsAre(FieldsAre(3, 1, 1), FieldsAre(4, 0, 2))));
  EXPECT_THAT(Put(session_, b, 2),
              IsOkAndHolds(ElementsAre(FieldsAre(5, 1, 2))));
  EXPECT_THAT(SendAll(session_, consumer), ElementsAre(3, 4, 5));
}

TEST_F(SessionSeekTest, ReplayThatDiffersIsAConflict) {
  ASSERT_THAT(session_.Seek(2, {2, 1}, {false, false}), IsOk());
  const int64_t b = *session_.OpenProducer("b", 2);
  const auto admitted = session_.Admit(b, 1, 0xbad, 1, 4);
  EXPECT_THAT(admitted, StatusIs(absl::StatusCode::kAlreadyExists,
                                 AllOf(HasSubstr("sequence 1 of producer b"),
                                       HasSubstr("has digest bad"))));
  EXPECT_THAT(admitted, HasReason(kSequenceConflict));
  EXPECT_THAT(session_.Admit(b, 1, DigestOf(1), 1, 4), IsOk());
}

TEST_F(SessionSeekTest, ABatchThatWaitsAgainIsNotYetAStep) {
  // b2 was step 5. It comes again before its turn, and once more.
  ASSERT_THAT(session_.Seek(2, {2, 1}, {false, true}), IsOk());
  ASSERT_THAT(session_.Seek(3, {2, 2}, {false, false}), IsOk());
  const int64_t b = *session_.OpenProducer("b", 2);
  EXPECT_THAT(Put(session_, b, 2), IsOkAndHolds(IsEmpty()));
  const auto again = session_.Admit(b, 2, DigestOf(2), 1, 4);
  ASSERT_THAT(again, IsOk());
  EXPECT_TRUE(again->duplicate);
  EXPECT_EQ(again->step, -1);
}

TEST_F(SessionSeekTest, ACursorThatLosesOrDoublesBatchesIsRefused) {
  // Behind step 3 are a0 b0 a1 b1.
  EXPECT_THAT(session_.Seek(3, {3, 2}, {false, false}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("cursor behind step 3 has next_sequence 3 of "
                                 "producer a; its sequence 2 was step 4")));
  EXPECT_THAT(session_.Seek(3, {2, 1}, {false, false}),
              HasReason(kCursorMismatch));
  EXPECT_EQ(session_.generation(), 1);
  EXPECT_THAT(session_.Seek(3, {2, 2}, {false, false}), IsOk());
}

TEST_F(SessionSeekTest, ACommitKeepsDigestsOfStepsThatHaveToComeAgain) {
  ASSERT_THAT(session_.Seek(3, {2, 2}, {false, false}), IsOk());
  ASSERT_THAT(session_.Commit(3), IsOk());
  const int64_t a = *session_.OpenProducer("a", 2);
  EXPECT_THAT(session_.Admit(a, 2, 0xbad, 1, 4), HasReason(kSequenceConflict));
}

TEST_F(SessionSeekTest, RaisesTheGenerationAndFencesAllStreams) {
  const int64_t generation = session_.generation();
  ASSERT_THAT(session_.Seek(-1, {0, 0}, {false, false}), IsOk());
  EXPECT_EQ(session_.generation(), generation + 1);
  EXPECT_THAT(Put(session_, a_, 3), HasReason(kFenced));
  EXPECT_THAT(session_.Next(consumer_), HasReason(kFenced));
  EXPECT_THAT(session_.Attach(0, 0, 0, generation, {}), HasReason(kFenced));
  EXPECT_THAT(session_.Attach(0, 0, 0, generation + 1, {}), IsOk());
}

TEST_F(SessionSeekTest, BackToTheBeginningStartsAnew) {
  ASSERT_THAT(session_.Seek(-1, {0, 0}, {false, false}), IsOk());
  const int64_t a = *session_.OpenProducer("a", 2);
  EXPECT_THAT(Put(session_, a, 0),
              IsOkAndHolds(ElementsAre(FieldsAre(0, 0, 0))));
  EXPECT_THAT(SendAll(session_, Attach(session_)), ElementsAre(0));
}

TEST_F(SessionSeekTest, DropsBatchesThatWaitOrAreUnderWay) {
  PutAll(session_, b_, 3, 1);
  ASSERT_THAT(session_.Admit(a_, 3, 1, 10, 40), IsOk());
  ASSERT_THAT(session_.Seek(5, {3, 3}, {false, false}), IsOk());
  EXPECT_EQ(session_.charged_bytes(), 0);
  const int64_t b = *session_.OpenProducer("b", 1);
  EXPECT_THAT(Put(session_, b, 3), IsOk());
}

TEST_F(SessionSeekTest, TakesBackACommitThatIsAhead) {
  ASSERT_THAT(session_.Commit(4), IsOk());
  ASSERT_THAT(session_.Seek(1, {1, 1}, {false, false}), IsOk());
  EXPECT_EQ(session_.committed_step(), 1);
  ASSERT_THAT(session_.Seek(3, {2, 2}, {false, false}), IsOk());
  EXPECT_EQ(session_.committed_step(), 1);
}

TEST_F(SessionSeekTest, UnfinishesAProducerThatHadMoreToSend) {
  ASSERT_THAT(session_.Finish(a_, 3), IsOk());
  ASSERT_THAT(session_.Finish(b_, 3), IsOk());
  ASSERT_THAT(session_.Seek(3, {2, 2}, {false, false}), IsOk());
  const int64_t consumer = Attach(session_);
  EXPECT_EQ(session_.Next(consumer)->kind, Delivery::Kind::kNothing);
  const int64_t a = *session_.OpenProducer("a", 1);
  EXPECT_THAT(Put(session_, a, 2), IsOk());
}

TEST_F(SessionSeekTest, WrongCursorsAreRefusedAndChangeNothing) {
  EXPECT_THAT(session_.Seek(2, {2}, {false, false}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("cursor has 1 producers; the session has 2")));
  EXPECT_THAT(session_.Seek(2, {2, 1}, {false}), HasReason(kCursorMismatch));
  EXPECT_THAT(
      session_.Seek(2, {2, -1}, {false, false}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("next_sequence of a producer is -1; must be 0 to")));
  EXPECT_THAT(session_.Seek(2, {INT64_MAX, 1}, {false, false}),
              HasReason(kCursorMismatch));
  EXPECT_THAT(session_.Seek(-2, {0, 0}, {false, false}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("cursor is behind step -2; must be -1 to")));
  EXPECT_THAT(session_.Seek(INT64_MAX, {2, 1}, {false, false}),
              HasReason(kCursorMismatch));
  EXPECT_EQ(session_.generation(), 1);
  EXPECT_EQ(session_.next_step(), 6);
  EXPECT_THAT(Put(session_, a_, 3), IsOk());
}

TEST(SessionTurnTest, TurnsResumeAmongProducersThatHaveNotFinished) {
  // a has 1 batch, b and c go on: a0 b0 c0 b1 c1 b2 | c2.
  Session session(ConfigOf({"a", "b", "c"}));
  ASSERT_THAT(session.Seek(5, {1, 3, 2}, {true, false, false}), IsOk());
  const int64_t b = *session.OpenProducer("b", 0);
  const int64_t c = *session.OpenProducer("c", 0);
  EXPECT_THAT(Put(session, b, 3), IsOkAndHolds(IsEmpty()));
  EXPECT_THAT(Put(session, c, 2), IsOkAndHolds(ElementsAre(
                                      FieldsAre(6, 2, 2), FieldsAre(7, 1, 3))));
}

TEST(SessionTurnTest, NewServerGoesOnFromACursor) {
  Session session(ConfigOf({"a"}));
  ASSERT_THAT(session.Seek(99, {100}, {false}), IsOk());
  const int64_t a = *session.OpenProducer("a", 7);
  EXPECT_THAT(Put(session, a, 99), HasReason(kCursorExpired));
  EXPECT_THAT(Put(session, a, 100),
              IsOkAndHolds(ElementsAre(FieldsAre(100, 0, 100))));
  EXPECT_THAT(SendAll(session, Attach(session)), ElementsAre(100));
}

TEST(SessionTurnTest, FinishedCursorEndsAtOnce) {
  Session session(ConfigOf({"a"}));
  ASSERT_THAT(session.Seek(9, {10}, {true}), IsOk());
  EXPECT_EQ(session.Next(Attach(session))->kind, Delivery::Kind::kEnd);
}

// Four steps, all sent and acknowledged; the trainer has committed step 0.
class SessionRetainTest : public ::testing::Test {
 protected:
  SessionRetainTest() : session_(Config()) {
    a_ = *session_.OpenProducer("a", 0);
    PutAll(session_, a_, 0, 4);
    consumer_ = Attach(session_);
    SendAll(session_, consumer_);
    EXPECT_THAT(session_.Ack(consumer_, 3), IsOk());
    EXPECT_THAT(session_.Commit(0), IsOk());
  }

  static SessionConfig Config() {
    SessionConfig config = ConfigOf({"a"});
    config.retention = Retention::kRetain;
    return config;
  }

  Session session_;
  int64_t a_ = 0;
  int64_t consumer_ = 0;
};

TEST_F(SessionRetainTest, HeldStepsAreSentAgainWithoutTheProducers) {
  ASSERT_THAT(session_.Seek(0, {1}, {false}), IsOkAndHolds(false));
  EXPECT_EQ(session_.generation(), 2);
  EXPECT_EQ(session_.next_step(), 4);
  EXPECT_THAT(session_.Next(consumer_), HasReason(kFenced));
  EXPECT_THAT(SendAll(session_, Attach(session_)), ElementsAre(1, 2, 3));
  // The producer goes on where it is.
  EXPECT_THAT(Put(session_, a_, 4),
              IsOkAndHolds(ElementsAre(FieldsAre(4, 0, 4))));
  EXPECT_EQ(session_.CheckInvariants(), "");
}

TEST_F(SessionRetainTest, SeekToTheEndKeepsWhatIsUnderWay) {
  ASSERT_THAT(session_.Admit(a_, 4, DigestOf(4), 10, 40), IsOk());
  ASSERT_THAT(session_.Seek(3, {4}, {false}), IsOkAndHolds(false));
  EXPECT_THAT(session_.Complete(a_, 4, 40), IsOk());
  EXPECT_THAT(SendAll(session_, Attach(session_)), ElementsAre(4));
}

TEST_F(SessionRetainTest, SeekBeforeACommittedStepTakesBackTheCommit) {
  ASSERT_THAT(session_.Seek(0, {1}, {false}), IsOk());
  const int64_t consumer = Attach(session_);
  SendAll(session_, consumer);
  ASSERT_THAT(session_.Ack(consumer, 1), IsOk());
  ASSERT_THAT(session_.Commit(3), IsOk());  // Ahead of what was acknowledged.
  EXPECT_EQ(session_.first_held_step(), 2);
  ASSERT_THAT(session_.Seek(1, {2}, {false}), IsOkAndHolds(false));
  EXPECT_EQ(session_.committed_step(), 1);
  EXPECT_THAT(SendAll(session_, Attach(session_)), ElementsAre(2, 3));
}

TEST_F(SessionRetainTest, ProducersThatCannotReplayAreNotSentBack) {
  const auto rewinds = session_.Seek(-1, {0}, {false});
  EXPECT_THAT(rewinds, StatusIs(absl::StatusCode::kOutOfRange,
                                AllOf(HasSubstr("behind step -1"),
                                      HasSubstr("first held one is 1"))));
  EXPECT_THAT(rewinds, HasReason(kCursorExpired));
  EXPECT_EQ(session_.generation(), 1);
}

TEST_F(SessionRetainTest, NewServerGoesOnFromACursor) {
  Session session(Config());
  ASSERT_THAT(session.Seek(9, {10}, {false}), IsOkAndHolds(true));
  const int64_t a = *session.OpenProducer("a", 0);
  EXPECT_THAT(Put(session, a, 10),
              IsOkAndHolds(ElementsAre(FieldsAre(10, 0, 10))));
}

}  // namespace
}  // namespace cpfeed

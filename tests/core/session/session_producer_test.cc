// Batches become steps: order, turns, duplicates, fencing.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
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
using ::cpfeed::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::FieldsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

int64_t Open(Session& session, const std::string& producer,
             int64_t incarnation = 0) {
  const auto connection = session.OpenProducer(producer, incarnation);
  EXPECT_THAT(connection, IsOk());
  return connection.value_or(0);
}

absl::StatusOr<Admission> Offer(Session& session, int64_t connection,
                                int64_t sequence) {
  return session.Admit(connection, sequence, DigestOf(sequence), 1, 4);
}

MATCHER_P(IsDuplicateOfStep, step, "") {
  return arg.ok() && arg->duplicate && arg->step == step;
}

TEST(SessionProducerTest, BatchesBecomeStepsInTheirOrder) {
  Session session(ConfigOf({"a"}));
  const int64_t a = Open(session, "a");
  EXPECT_THAT(Put(session, a, 0),
              IsOkAndHolds(ElementsAre(FieldsAre(0, 0, 0))));
  EXPECT_THAT(Put(session, a, 1),
              IsOkAndHolds(ElementsAre(FieldsAre(1, 0, 1))));
  EXPECT_EQ(session.next_step(), 2);
}

TEST(SessionProducerTest, ProducersTakeTurnsInTheOrderOfTheList) {
  // Sent:      b0 b1 | a0       | c0       | a1 c1
  // Published:       | a0 b0    | c0       | a1 b1 c1
  Session session(ConfigOf({"a", "b", "c"}));
  const int64_t a = Open(session, "a");
  const int64_t b = Open(session, "b");
  const int64_t c = Open(session, "c");
  EXPECT_THAT(Put(session, b, 0), IsOkAndHolds(IsEmpty()));
  EXPECT_THAT(Put(session, b, 1), IsOkAndHolds(IsEmpty()));
  EXPECT_THAT(Put(session, a, 0), IsOkAndHolds(ElementsAre(
                                      FieldsAre(0, 0, 0), FieldsAre(1, 1, 0))));
  EXPECT_THAT(Put(session, c, 0),
              IsOkAndHolds(ElementsAre(FieldsAre(2, 2, 0))));
  EXPECT_THAT(Put(session, a, 1), IsOkAndHolds(ElementsAre(
                                      FieldsAre(3, 0, 1), FieldsAre(4, 1, 1))));
  EXPECT_THAT(Put(session, c, 1),
              IsOkAndHolds(ElementsAre(FieldsAre(5, 2, 1))));
}

// All 1680 orders in which the events of three producers (two batches, then
// the end) can come.
TEST(SessionProducerTest, StepsDoNotDependOnTheOrderOfArrival) {
  std::string order = "aaabbbccc";
  do {
    Session session(ConfigOf({"a", "b", "c"}));
    const int64_t connections[] = {Open(session, "a"), Open(session, "b"),
                                   Open(session, "c")};
    int64_t sequences[] = {0, 0, 0};
    std::vector<PublishedStep> steps;
    for (const char producer : order) {
      const int64_t connection = connections[producer - 'a'];
      const int64_t sequence = sequences[producer - 'a']++;
      const auto published = sequence < 2 ? Put(session, connection, sequence)
                                          : session.Finish(connection, 2);
      ASSERT_THAT(published, IsOk());
      steps.insert(steps.end(), published->begin(), published->end());
    }
    ASSERT_THAT(steps, ElementsAre(FieldsAre(0, 0, 0), FieldsAre(1, 1, 0),
                                   FieldsAre(2, 2, 0), FieldsAre(3, 0, 1),
                                   FieldsAre(4, 1, 1), FieldsAre(5, 2, 1)))
        << order;
    ASSERT_TRUE(session.all_finished());
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(SessionProducerTest, FinishedProducerIsPassedOver) {
  Session session(ConfigOf({"a", "b"}));
  const int64_t a = Open(session, "a");
  const int64_t b = Open(session, "b");
  PutAll(session, a, 0, 1);
  PutAll(session, b, 0, 3);  // b1 and b2 wait for a.
  EXPECT_EQ(session.next_step(), 2);
  EXPECT_THAT(
      session.Finish(a, 1),
      IsOkAndHolds(ElementsAre(FieldsAre(2, 1, 1), FieldsAre(3, 1, 2))));
  EXPECT_FALSE(session.all_finished());
  EXPECT_THAT(session.Finish(b, 3), IsOkAndHolds(IsEmpty()));
  EXPECT_TRUE(session.all_finished());
}

TEST(SessionProducerTest, ProducerThatFinishesBeforeItsTurnIsStillWaitedFor) {
  Session session(ConfigOf({"a", "b"}));
  const int64_t a = Open(session, "a");
  const int64_t b = Open(session, "b");
  PutAll(session, b, 0, 2);
  EXPECT_THAT(session.Finish(b, 2), IsOkAndHolds(IsEmpty()));
  EXPECT_FALSE(session.Finish(b, 1).ok());
  EXPECT_THAT(Put(session, a, 0), IsOkAndHolds(ElementsAre(
                                      FieldsAre(0, 0, 0), FieldsAre(1, 1, 0))));
  // b1 is the last one: finishing a alone lets it out.
  EXPECT_THAT(session.Finish(a, 1),
              IsOkAndHolds(ElementsAre(FieldsAre(2, 1, 1))));
  EXPECT_TRUE(session.all_finished());
}

TEST(SessionProducerTest, FinishTellsTheNumberOfBatches) {
  Session session(ConfigOf({"a"}));
  const int64_t a = Open(session, "a");
  PutAll(session, a, 0, 2);
  const auto finished = session.Finish(a, 3);
  EXPECT_THAT(finished, StatusIs(absl::StatusCode::kFailedPrecondition,
                                 HasSubstr("must be 2")));
  EXPECT_THAT(finished, HasReason(kOutOfOrder));
  ASSERT_THAT(Offer(session, a, 2), IsOk());
  EXPECT_THAT(session.Finish(a, 2),
              HasReason(kOutOfOrder));  // It is under way.
  ASSERT_THAT(session.Reject(a, 2), IsOk());
  EXPECT_THAT(session.Finish(a, 2), IsOk());
  EXPECT_THAT(session.Finish(a, 2), IsOk());  // Its answer may get lost.
  const auto late = Offer(session, a, 2);
  EXPECT_THAT(late, StatusIs(absl::StatusCode::kFailedPrecondition,
                             HasSubstr("finished after 2 batches")));
  EXPECT_THAT(late, HasReason(kOutOfOrder));
}

TEST(SessionProducerTest, GapIsRefusedWithBothNumbers) {
  Session session(ConfigOf({"a"}));
  const int64_t a = Open(session, "a");
  PutAll(session, a, 0, 3);
  const auto admitted = Offer(session, a, 4);
  EXPECT_THAT(admitted, StatusIs(absl::StatusCode::kFailedPrecondition,
                                 HasSubstr("sent sequence 4; must be 3")));
  EXPECT_THAT(admitted, HasReason(kOutOfOrder));
  EXPECT_THAT(Put(session, a, 3), IsOk());
}

TEST(SessionProducerTest, LostReceiptIsAnsweredWithTheStepThatItWas) {
  // All were published, the answer for batch 0 alone got lost: the retry is
  // behind what the session wants next, and no gap.
  Session session(ConfigOf({"a", "b"}));
  const int64_t a = Open(session, "a");
  const int64_t b = Open(session, "b");
  for (int64_t sequence = 0; sequence < 4; ++sequence) {
    PutAll(session, a, sequence, 1);
    PutAll(session, b, sequence, 1);
  }
  EXPECT_THAT(Offer(session, a, 0), IsDuplicateOfStep(0));
  EXPECT_THAT(Offer(session, b, 0), IsDuplicateOfStep(1));
  EXPECT_THAT(Offer(session, b, 2), IsDuplicateOfStep(5));
  EXPECT_EQ(session.next_step(), 8);
  EXPECT_THAT(Put(session, a, 4), IsOk());
}

TEST(SessionProducerTest, RetryOverANewStreamIsADuplicateToo) {
  Session session(ConfigOf({"a"}));
  const int64_t a = Open(session, "a");
  PutAll(session, a, 0, 3);
  session.CloseProducer(a);
  const int64_t again = Open(session, "a");
  EXPECT_THAT(Offer(session, again, 0), IsDuplicateOfStep(0));
  EXPECT_THAT(Offer(session, again, 2), IsDuplicateOfStep(2));
}

TEST(SessionProducerTest, RetryAfterFinishIsADuplicate) {
  Session session(ConfigOf({"a"}));
  const int64_t a = Open(session, "a");
  PutAll(session, a, 0, 2);
  ASSERT_THAT(session.Finish(a, 2), IsOk());
  session.CloseProducer(a);
  const int64_t again = Open(session, "a");
  EXPECT_THAT(Offer(session, again, 0), IsDuplicateOfStep(0));
}

TEST(SessionProducerTest, DuplicateOfABatchThatWaitsHasNoStepYet) {
  Session session(ConfigOf({"a", "b"}));
  const int64_t b = Open(session, "b");
  PutAll(session, b, 0, 1);
  EXPECT_THAT(Offer(session, b, 0), IsDuplicateOfStep(-1));
}

TEST(SessionProducerTest, SameSequenceWithOtherContentIsAConflict) {
  Session session(ConfigOf({"a", "b"}));
  const int64_t a = Open(session, "a");
  const int64_t b = Open(session, "b");
  PutAll(session, a, 0, 2);  // a0 is published, a1 waits.
  for (const int64_t sequence : {0, 1}) {
    const auto admitted = session.Admit(a, sequence, 0xabc, 1, 4);
    EXPECT_THAT(
        admitted,
        StatusIs(absl::StatusCode::kAlreadyExists,
                 AllOf(HasSubstr("has digest abc"),
                       HasSubstr(absl::StrCat("sequence ", sequence)))));
    EXPECT_THAT(admitted, HasReason(kSequenceConflict));
  }
  // b's batches are numbered on their own.
  EXPECT_THAT(session.Admit(b, 0, 0xabc, 1, 4), IsOk());
}

TEST(SessionProducerTest, CommittedBatchIsForgotten) {
  Session session(ConfigOf({"a"}));
  const int64_t a = Open(session, "a");
  PutAll(session, a, 0, 3);
  ASSERT_THAT(session.Commit(1), IsOk());
  const auto admitted = Offer(session, a, 1);
  EXPECT_THAT(admitted,
              StatusIs(absl::StatusCode::kOutOfRange,
                       AllOf(HasSubstr("sequence 1"), HasSubstr("next is 3"))));
  EXPECT_THAT(admitted, HasReason(kCursorExpired));
  EXPECT_THAT(Offer(session, a, 2), IsDuplicateOfStep(2));
}

TEST(SessionProducerTest, RejectedBatchIsWantedAgain) {
  Session session(ConfigOf({"a"}));
  const int64_t a = Open(session, "a");
  PutAll(session, a, 0, 1);
  ASSERT_THAT(session.Admit(a, 1, 0xbad, 5, 20), IsOk());
  EXPECT_EQ(session.charged_bytes(), 4 + 20);
  ASSERT_THAT(session.Reject(a, 1), IsOk());
  EXPECT_EQ(session.charged_bytes(), 4);
  EXPECT_THAT(Put(session, a, 1),
              IsOkAndHolds(ElementsAre(FieldsAre(1, 0, 1))));
}

TEST(SessionProducerTest, BatchesBehindARejectedOneAreOutOfOrder) {
  Session session(ConfigOf({"a"}));
  const int64_t a = Open(session, "a");
  for (const int64_t sequence : {0, 1, 2}) {
    ASSERT_THAT(Offer(session, a, sequence), IsOk());
  }
  ASSERT_THAT(session.Reject(a, 1), IsOk());
  EXPECT_THAT(session.Complete(a, 2, 4), HasReason(kOutOfOrder));
  EXPECT_THAT(session.Recharge(a, 2, 4), HasReason(kOutOfOrder));
  EXPECT_THAT(session.Reject(a, 2), HasReason(kOutOfOrder));
  EXPECT_THAT(session.Complete(a, 0, 4), IsOk());
  EXPECT_THAT(
      Offer(session, a, 2),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("must be 1")));
  EXPECT_THAT(Put(session, a, 1), IsOk());
}

// The converter still has batch 1 of the first try when it comes again.
TEST(SessionProducerTest, BatchOfBeforeARejectionDoesNotCompleteEarly) {
  Session session(ConfigOf({"a"}));
  const int64_t a = Open(session, "a");
  EXPECT_THAT(Offer(session, a, 0), IsOk());
  EXPECT_THAT(Offer(session, a, 1), IsOk());
  EXPECT_THAT(session.Reject(a, 0), IsOk());
  EXPECT_THAT(Offer(session, a, 0), IsOk());
  EXPECT_THAT(Offer(session, a, 1), IsOk());
  EXPECT_THAT(session.Complete(a, 1, 4).status(), HasReason(kOutOfOrder));
  EXPECT_THAT(session.Complete(a, 0, 4), IsOk());
  EXPECT_THAT(session.Complete(a, 1, 4), IsOk());
}

TEST(SessionProducerTest, ClosingDropsBatchesUnderWayButNotWaitingOnes) {
  Session session(ConfigOf({"a", "b"}));
  const int64_t b = Open(session, "b");
  PutAll(session, b, 0, 1);
  ASSERT_THAT(Offer(session, b, 1), IsOk());
  session.CloseProducer(b);
  EXPECT_EQ(session.charged_bytes(), 4);
  const int64_t again = Open(session, "b");
  EXPECT_THAT(Offer(session, again, 0), IsDuplicateOfStep(-1));
  EXPECT_THAT(Put(session, again, 1), IsOk());
  const int64_t a = Open(session, "a");
  EXPECT_THAT(Put(session, a, 0), IsOkAndHolds(ElementsAre(
                                      FieldsAre(0, 0, 0), FieldsAre(1, 1, 0))));
}

TEST(SessionProducerTest, NewerIncarnationFencesTheOlderOne) {
  Session session(ConfigOf({"a"}));
  const int64_t old = Open(session, "a", 5);
  ASSERT_THAT(Offer(session, old, 0), IsOk());
  const int64_t current = Open(session, "a", 6);
  EXPECT_EQ(session.charged_bytes(), 0);  // The old one's batch is dropped.
  EXPECT_THAT(session.Complete(old, 0, 4),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("fenced")));
  EXPECT_THAT(Offer(session, old, 0), HasReason(kFenced));
  EXPECT_THAT(session.Recharge(old, 0, 4), HasReason(kFenced));
  EXPECT_THAT(session.Reject(old, 0), HasReason(kFenced));
  EXPECT_THAT(session.Refuse(old, 1), HasReason(kFenced));
  EXPECT_THAT(session.Finish(old, 0), HasReason(kFenced));
  EXPECT_THAT(session.TakeGrant(old), HasReason(kFenced));
  session.CloseProducer(old);  // Does not close the new one.
  EXPECT_THAT(Put(session, current, 0), IsOk());
}

TEST(SessionProducerTest, OlderIncarnationCannotOpen) {
  Session session(ConfigOf({"a"}));
  session.CloseProducer(Open(session, "a", 6));
  const auto opened = session.OpenProducer("a", 5);
  EXPECT_THAT(opened,
              StatusIs(absl::StatusCode::kAborted,
                       AllOf(HasSubstr("incarnation 5"),
                             HasSubstr("incarnation 6 was here before"))));
  EXPECT_THAT(opened, HasReason(kFenced));
  EXPECT_THAT(session.OpenProducer("a", 6), IsOk());
}

TEST(SessionProducerTest, TwoStreamsOfOneIncarnationAreNotTaken) {
  Session session(ConfigOf({"a"}));
  const int64_t a = Open(session, "a", 6);
  EXPECT_THAT(session.OpenProducer("a", 6), HasReason(kFenced));
  EXPECT_THAT(Put(session, a, 0), IsOk());
}

TEST(SessionProducerTest, StrangerCannotOpen) {
  Session session(ConfigOf({"a"}));
  EXPECT_THAT(session.OpenProducer("z", 0),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("producer z")));
}

TEST(SessionProducerTest, FailedSessionAnswersWithItsFailure) {
  Session session(ConfigOf({"a"}));
  const int64_t a = Open(session, "a");
  const absl::Status failure =
      MakeError(absl::StatusCode::kInternal, kSessionFailed, "poison");
  session.Fail(failure);
  session.Fail(absl::UnknownError("later ones do not count"));
  EXPECT_EQ(Put(session, a, 0).status(), failure);
  EXPECT_EQ(session.OpenProducer("a", 1).status(), failure);
  EXPECT_EQ(session.Attach(0, 0, 0, 0, {}).status(), failure);
  EXPECT_EQ(session.Commit(0), failure);
  EXPECT_EQ(session.Seek(0, {0}, {false}).status(), failure);
}

}  // namespace
}  // namespace cpfeed

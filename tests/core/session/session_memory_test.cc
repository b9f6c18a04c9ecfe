// Credit and budget.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/session/session.h"
#include "tests/core/session/session_events.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::DigestOf;
using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::IsOkAndHolds;
using ::cpfeed::testing::Put;
using ::cpfeed::testing::PutAll;
using ::cpfeed::testing::SendAll;
using ::cpfeed::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Batches of up to 1000 bytes; the budget holds `batches` of them.
SessionConfig Budget(std::vector<std::string> producers, int64_t batches) {
  return {.producers = std::move(producers),
          .memory_budget_bytes = batches * 4000,
          .max_batch_bytes = 1000};
}

// The consumer takes and acknowledges all there is.
void Drain(Session& session, int64_t consumer) {
  while (true) {
    SendAll(session, consumer, 0);
    const auto& state = session.consumers()[0];
    if (state.acked_step + 1 == state.next_step) return;
    ASSERT_THAT(session.Ack(consumer, state.next_step - 1), IsOk());
  }
}

TEST(SessionMemoryTest, CreditIsToldOnce) {
  Session session(Budget({"a"}, 10));
  const int64_t a = *session.OpenProducer("a", 0);
  EXPECT_EQ(*session.TakeGrant(a), 2000);  // Two largest batches.
  EXPECT_EQ(*session.TakeGrant(a), 0);
  PutAll(session, a, 0, 1);
  EXPECT_EQ(*session.TakeGrant(a), 1);
}

TEST(SessionMemoryTest, LargerBudgetGivesCreditAtOnce) {
  Session session(Budget({"a"}, 1));
  const int64_t a = *session.OpenProducer("a", 0);
  EXPECT_EQ(*session.TakeGrant(a), 1000);
  ASSERT_THAT(session.SetLimits(Budget({"a"}, 3)), IsOk());
  EXPECT_EQ(*session.TakeGrant(a), 1000);
  EXPECT_EQ(session.CheckInvariants(), "");
}

TEST(SessionMemoryTest, BudgetBelowWhatIsHeldOrPromisedIsRefused) {
  Session session(Budget({"a"}, 10));
  const int64_t a = *session.OpenProducer("a", 0);
  PutAll(session, a, 0, 1);  // Costs 4; credit is 2000 again.
  const absl::Status refused = session.SetLimits(Budget({"a"}, 2));
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted,
                                AllOf(HasSubstr("is 8000"),
                                      HasSubstr("promised or holds 8004"))));
  EXPECT_THAT(refused, HasReason(kMemoryPressure));
  EXPECT_EQ(session.config().memory_budget_bytes, 40000);
  EXPECT_THAT(session.SetLimits({.max_step_skew = 0}), HasReason(kBadOption));
  EXPECT_EQ(session.CheckInvariants(), "");
}

TEST(SessionMemoryTest, StreamThatOpensAnewIsToldAllCredit) {
  Session session(Budget({"a"}, 10));
  const int64_t a = *session.OpenProducer("a", 0);
  EXPECT_EQ(*session.TakeGrant(a), 2000);
  session.CloseProducer(a);
  EXPECT_EQ(*session.TakeGrant(*session.OpenProducer("a", 0)), 2000);
}

TEST(SessionMemoryTest, BatchBeyondItsCreditBreaksTheProtocol) {
  Session session(Budget({"a"}, 1));
  const int64_t a = *session.OpenProducer("a", 0);
  ASSERT_EQ(*session.TakeGrant(a), 1000);
  const auto admitted = session.Admit(a, 0, 1, 1001, 4004);
  EXPECT_THAT(admitted, StatusIs(absl::StatusCode::kInvalidArgument,
                                 AllOf(HasSubstr("batch has 1001 bytes"),
                                       HasSubstr("credit is 1000"))));
  EXPECT_THAT(admitted, HasReason(kProtocolError));
}

TEST(SessionMemoryTest, CreditIsMemoryThatIsPromised) {
  Session session(Budget({"a"}, 1));
  const int64_t a = *session.OpenProducer("a", 0);
  EXPECT_EQ(session.reserved_bytes(), 4000);
  ASSERT_THAT(session.Admit(a, 0, 1, 600, 2400), IsOk());
  EXPECT_EQ(session.charged_bytes(), 2400);
  EXPECT_EQ(session.reserved_bytes(), 1600);
  // Its real cost is lower: the rest is credit again.
  ASSERT_THAT(session.Complete(a, 0, 400), IsOk());
  EXPECT_EQ(session.charged_bytes(), 400);
  EXPECT_EQ(session.reserved_bytes(), 3600);
}

TEST(SessionMemoryTest, AcknowledgedStepsGiveCreditBack) {
  Session session(Budget({"a"}, 1));
  const int64_t a = *session.OpenProducer("a", 0);
  ASSERT_EQ(*session.TakeGrant(a), 1000);
  ASSERT_THAT(Put(session, a, 0, 1000), IsOk());
  EXPECT_EQ(*session.TakeGrant(a), 0);
  const int64_t consumer = *session.Attach(0, 0, 0, 0, {});
  Drain(session, consumer);
  EXPECT_EQ(*session.TakeGrant(a), 1000);
}

TEST(SessionMemoryTest, RejectedBatchGivesCreditBack) {
  Session session(Budget({"a"}, 1));
  const int64_t a = *session.OpenProducer("a", 0);
  ASSERT_EQ(*session.TakeGrant(a), 1000);
  ASSERT_THAT(session.Admit(a, 0, 1, 700, 2800), IsOk());
  ASSERT_THAT(session.Reject(a, 0), IsOk());
  EXPECT_EQ(*session.TakeGrant(a), 700);
}

// Of these the payload is dropped as it comes, so it costs no memory; but the
// producer has taken it out of its credit.
TEST(SessionMemoryTest, CreditOfBatchesThatAreDroppedIsToldAnew) {
  Session session(Budget({"a"}, 1));
  const int64_t a = *session.OpenProducer("a", 0);
  ASSERT_EQ(*session.TakeGrant(a), 1000);
  ASSERT_THAT(session.Admit(a, 0, DigestOf(0), 100, 400), IsOk());
  ASSERT_THAT(session.Complete(a, 0, 400), IsOk());
  ASSERT_EQ(*session.TakeGrant(a), 0);

  ASSERT_TRUE(session.Admit(a, 0, DigestOf(0), 900, 3600)->duplicate);
  EXPECT_EQ(*session.TakeGrant(a), 900);
  ASSERT_THAT(session.Admit(a, 0, 0xbad, 800, 3200),
              HasReason(kSequenceConflict));
  EXPECT_EQ(*session.TakeGrant(a), 800);
  ASSERT_THAT(session.Admit(a, 2, DigestOf(2), 700, 2800),
              HasReason(kOutOfOrder));
  EXPECT_EQ(*session.TakeGrant(a), 700);
  ASSERT_THAT(session.Refuse(a, 600), IsOk());
  EXPECT_EQ(*session.TakeGrant(a), 600);
  EXPECT_EQ(session.CheckInvariants(), "");
}

TEST(SessionMemoryTest, DuplicateNeedsNoCredit) {
  Session session(Budget({"a"}, 1));
  const int64_t a = *session.OpenProducer("a", 0);
  ASSERT_THAT(Put(session, a, 0, 1000), IsOk());
  EXPECT_TRUE(session.Admit(a, 0, DigestOf(0), 1000, 4000)->duplicate);
}

TEST(SessionMemoryTest, FinishedProducerHoldsNoMemory) {
  Session session(Budget({"a", "b"}, 3));
  const int64_t a = *session.OpenProducer("a", 0);
  const int64_t b = *session.OpenProducer("b", 0);
  EXPECT_EQ(*session.TakeGrant(b), 1000);
  ASSERT_THAT(session.Finish(a, 0), IsOk());
  EXPECT_EQ(*session.TakeGrant(a), 0);
  EXPECT_EQ(*session.TakeGrant(b), 1000);  // Room for a second batch.
  EXPECT_EQ(session.reserved_bytes(), 8000);
}

TEST(SessionMemoryTest, StalledConsumerStopsProducersAtTheBudget) {
  Session session(Budget({"a"}, 8));
  const int64_t a = *session.OpenProducer("a", 0);
  int64_t credit = *session.TakeGrant(a);
  int64_t sequence = 0;
  for (; credit >= 1000; ++sequence) {
    ASSERT_THAT(Put(session, a, sequence, 1000), IsOk());
    credit += *session.TakeGrant(a) - 1000;
    ASSERT_EQ(session.CheckInvariants(), "");
  }
  EXPECT_EQ(sequence, 8);
  EXPECT_EQ(session.charged_bytes(), 32'000);
}

// X has the turn and its loader is slow. Y runs ahead; T has just sent a batch.
// Had Y got the memory that T's batch gave back, nothing could ever go on: all
// others would wait for T, and T for credit.
TEST(SessionMemoryTest, ProducerThatRunsAheadCannotStarveTheOthers) {
  Session session(Budget({"t", "x", "y"}, 3));
  const int64_t t = *session.OpenProducer("t", 0);
  const int64_t x = *session.OpenProducer("x", 0);
  const int64_t y = *session.OpenProducer("y", 0);
  const int64_t consumer = *session.Attach(0, 0, 0, 0, {});
  ASSERT_THAT(Put(session, t, 0, 1000), IsOk());
  ASSERT_THAT(Put(session, y, 0, 1), IsOk());
  ASSERT_THAT(Put(session, y, 1, 999), IsOk());
  Drain(session, consumer);
  ASSERT_THAT(Put(session, x, 0, 1), IsOk());
  Drain(session, consumer);
  EXPECT_THAT(Put(session, t, 1, 1000), IsOk());
}

TEST(SessionRechargeTest, LargerCostIsChargedWhereThereIsRoom) {
  Session session(Budget({"a"}, 10));
  const int64_t a = *session.OpenProducer("a", 0);
  ASSERT_THAT(session.Admit(a, 0, 1, 10, 40), IsOk());
  EXPECT_THAT(session.Recharge(a, 0, 4000), IsOkAndHolds(true));
  EXPECT_EQ(session.charged_bytes(), 4000);
  EXPECT_THAT(session.Recharge(a, 0, 100), IsOkAndHolds(true));
  EXPECT_EQ(session.charged_bytes(), 100);
  EXPECT_THAT(session.Complete(a, 0, 100), IsOk());
}

TEST(SessionRechargeTest, BatchThatNeverFitsIsTooLarge) {
  Session session(Budget({"a", "b"}, 5));
  const int64_t a = *session.OpenProducer("a", 0);
  ASSERT_THAT(session.Admit(a, 0, 1, 10, 40), IsOk());
  // b's largest batch needs 4000 of the 20000.
  const auto recharged = session.Recharge(a, 0, 16'001);
  EXPECT_THAT(recharged, StatusIs(absl::StatusCode::kInvalidArgument,
                                  AllOf(HasSubstr("batch needs 16001 bytes"),
                                        HasSubstr("at most 16000"),
                                        HasSubstr("budget of 20000"))));
  EXPECT_THAT(recharged, HasReason(kBatchTooLarge));
}

TEST(SessionRechargeTest, WaitsForStepsThatWillBeFreed) {
  // The budget is full of steps and credit; a batch that grows must wait, and
  // what is freed meanwhile goes to it and not into credit.
  Session session(Budget({"a"}, 4));
  const int64_t a = *session.OpenProducer("a", 0);
  const int64_t consumer = *session.Attach(0, 0, 0, 0, {});
  for (int64_t sequence = 0; sequence < 3; ++sequence) {
    ASSERT_THAT(Put(session, a, sequence, 1000), IsOk());
  }
  ASSERT_THAT(session.Admit(a, 3, 1, 10, 40), IsOk());
  EXPECT_THAT(session.Recharge(a, 3, 4000), IsOkAndHolds(false));
  EXPECT_EQ(session.charged_bytes(), 12'040);
  Drain(session, consumer);
  EXPECT_THAT(session.Recharge(a, 3, 4000), IsOkAndHolds(true));
}

TEST(SessionRechargeTest, BatchBehindOthersLeavesThemTheirClaims) {
  // a has the turn. b's batch may not grow into what a may still send.
  Session session(Budget({"a", "b"}, 2));
  const int64_t a = *session.OpenProducer("a", 0);
  const int64_t b = *session.OpenProducer("b", 0);
  const int64_t consumer = *session.Attach(0, 0, 0, 0, {});
  ASSERT_THAT(Put(session, a, 0, 1000), IsOk());
  ASSERT_THAT(Put(session, b, 0, 1000), IsOk());
  ASSERT_THAT(session.Finish(a, 1), IsOk());
  Drain(session, consumer);
  ASSERT_THAT(session.Admit(b, 1, 1, 10, 40), IsOk());
  EXPECT_THAT(session.Recharge(b, 1, 4000), IsOkAndHolds(true));
}

TEST(SessionRechargeTest, BatchThatWaitsForItsTurnMayAskAgain) {
  Session session(Budget({"a", "b"}, 2));
  const int64_t a = *session.OpenProducer("a", 0);
  const int64_t b = *session.OpenProducer("b", 0);
  const int64_t consumer = *session.Attach(0, 0, 0, 0, {});
  ASSERT_THAT(session.Admit(b, 0, 1, 500, 2000), IsOk());
  EXPECT_THAT(session.Recharge(b, 0, 4000), IsOkAndHolds(false));
  ASSERT_THAT(Put(session, a, 0, 1000), IsOk());
  EXPECT_THAT(session.Recharge(b, 0, 4000), IsOkAndHolds(false));
  Drain(session, consumer);
  // Nothing more will be freed: half of the budget is credit of a, a quarter
  // credit of b.
  const auto recharged = session.Recharge(b, 0, 4000);
  EXPECT_THAT(recharged, StatusIs(absl::StatusCode::kInvalidArgument,
                                  HasSubstr("must be at most 2000")));
  EXPECT_THAT(recharged, HasReason(kBatchTooLarge));
  EXPECT_EQ(session.CheckInvariants(), "");
}

TEST(SessionRechargeTest, RetainedStepCannotBeLargerThanTheTrainerIsPromised) {
  SessionConfig config = Budget({"a"}, 20);
  config.retention = Retention::kRetain;
  config.max_uncommitted_steps = 4;
  Session session(config);
  const int64_t a = *session.OpenProducer("a", 0);
  ASSERT_THAT(session.Admit(a, 0, 1, 10, 40), IsOk());
  EXPECT_THAT(session.Recharge(a, 0, 4001), HasReason(kBatchTooLarge));
  EXPECT_THAT(session.Recharge(a, 0, 4000), IsOkAndHolds(true));
}

}  // namespace
}  // namespace cpfeed

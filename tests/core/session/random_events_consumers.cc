// What consumers do.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "core/base/error.h"
#include "core/session/session.h"
#include "tests/core/session/random_events.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed::testing {

void RandomEvents::ConsumerEvent(int c) {
  Reader& reader = readers_[c];
  if (reader.stale_connection != 0 && OneIn(30)) {
    EXPECT_THAT(session_.Next(reader.stale_connection), HasReason(kFenced));
    EXPECT_THAT(session_.Ack(reader.stale_connection, 0), HasReason(kFenced));
    return;
  }
  if (reader.connection == 0 || OneIn(60)) return AttachReader(c);
  switch (Uniform(0, 9)) {
    case 0:
      return DropReader(c);
    case 1:
    case 2:
      return AddCredit(reader);
    case 3:
    case 4:
    case 5:
      return AckSome(reader);
    default:
      return SendOne(c);
  }
}

void RandomEvents::DropReader(int c) {
  if (!OneIn(8)) return;
  Reader& reader = readers_[c];
  session_.CloseConsumer(reader.connection);
  reader.stale_connection = reader.connection;
  reader.connection = 0;
}

void RandomEvents::AttachReader(int c) {
  Reader& reader = readers_[c];
  std::optional<int64_t> first;
  if (OneIn(3)) first = reader.next + Uniform(-4, 1);
  const bool newer = OneIn(2);
  const bool older = !newer && reader.incarnation > 0 && OneIn(5);
  const int64_t incarnation = reader.incarnation + newer - older;
  const auto attached =
      session_.Attach(c / kConsumersPerRank, c % kConsumersPerRank, incarnation,
                      OneIn(2) ? 0 : generation_, first);
  const int64_t start = first.value_or(reader.acked + 1);
  if (older) {
    EXPECT_THAT(attached, HasReason(kFenced));
  } else if (start < FirstNeeded()) {
    EXPECT_THAT(attached, HasReason(kCursorExpired));
  } else if (start > reader.unsent) {
    EXPECT_THAT(attached, HasReason(kCursorMismatch));
  } else {
    ASSERT_THAT(attached, IsOk());
    if (reader.connection != 0) reader.stale_connection = reader.connection;
    reader = {.connection = *attached,
              .stale_connection = reader.stale_connection,
              .incarnation = incarnation,
              .acked = start - 1,
              .next = start,
              .unsent = reader.unsent};
  }
}

void RandomEvents::AddCredit(Reader& reader) {
  const int64_t bytes = Uniform(0, 300);
  EXPECT_THAT(session_.AddCredit(reader.connection, bytes), IsOk());
  reader.credit += bytes;
}

void RandomEvents::AckSome(Reader& reader) {
  if (reader.next == 0 || OneIn(20)) {
    EXPECT_THAT(session_.Ack(reader.connection, reader.next),
                HasReason(kProtocolError));
    return;
  }
  const int64_t through =
      Uniform(std::max<int64_t>(reader.acked, 0), reader.next - 1);
  if (through < 0) return;
  EXPECT_THAT(session_.Ack(reader.connection, through), IsOk());
  reader.acked = std::max(reader.acked, through);
}

void RandomEvents::SendOne(int c) {
  Reader& reader = readers_[c];
  const int64_t bytes = Uniform(1, 200);
  const auto next = session_.Next(reader.connection);
  ASSERT_THAT(next, IsOk());
  const bool is_last = reader.next == static_cast<int64_t>(steps_.size());
  const bool in_window = reader.next <= SlowestAcked() + kSkew;
  const bool affordable =
      bytes <= reader.credit || reader.acked + 1 == reader.next;
  if (is_last && AllPublished()) {
    EXPECT_EQ(next->kind, Delivery::Kind::kEnd);
    EXPECT_EQ(next->step, reader.next);
    ended_ = true;
  } else if (is_last || !in_window) {
    EXPECT_EQ(next->kind, Delivery::Kind::kNothing);
  } else {
    EXPECT_EQ(next->kind, Delivery::Kind::kStep);
    EXPECT_EQ(next->step, reader.next);
  }
  const bool expected = next->kind == Delivery::Kind::kStep && affordable;
  ASSERT_THAT(session_.TrySend(reader.connection, bytes),
              IsOkAndHolds(expected));
  if (!expected) return;
  reader.credit -= bytes;
  ++reader.next;
  reader.unsent = std::max(reader.unsent, reader.next);
  ++num_deliveries_;
}

}  // namespace cpfeed::testing

#include "tests/core/session/random_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/error.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed::testing {

RandomEvents::RandomEvents(Retention retention, uint64_t seed)
    : random_(seed), session_(ConfigFor(retention)) {
  EXPECT_THAT(ValidateConfig(session_.config()), IsOk());
}

void RandomEvents::Run(int num_events) {
  for (int i = 0; i < num_events; ++i) {
    SCOPED_TRACE(::testing::Message() << "event " << i);
    const int number = static_cast<int>(Uniform(0, 99));
    if (number < 50) {
      ProducerEvent(static_cast<int>(Uniform(0, kProducers - 1)));
    } else if (number < 97) {
      ConsumerEvent(static_cast<int>(Uniform(0, kConsumers - 1)));
    } else if (number < 99) {
      CommitSomething();
    } else if (OneIn(4)) {
      SeekSomewhere();
    }
    Compare();
    if (::testing::Test::HasFailure()) return;
  }
}

SessionConfig RandomEvents::ConfigFor(Retention retention) {
  return {.cp_size = kRanks,
          .consumers_per_cp_rank = kConsumersPerRank,
          .producers = {"p0", "p1", "p2"},
          .retention = retention,
          .max_step_skew = kSkew,
          .max_uncommitted_steps = 6,
          .memory_budget_bytes = 12 * kLargest * kCostPerPayloadByte,
          .max_batch_bytes = kLargest};
}

int64_t RandomEvents::Uniform(int64_t least, int64_t most) {
  return std::uniform_int_distribution<int64_t>(least, most)(random_);
}

void RandomEvents::CommitSomething() {
  const int64_t step =
      Uniform(-1, static_cast<int64_t>(steps_.size()) - 1 + OneIn(5));
  const absl::Status status = session_.Commit(step);
  if (step >= static_cast<int64_t>(steps_.size())) {
    EXPECT_THAT(status, HasReason(kCursorMismatch));
    return;
  }
  ASSERT_THAT(status, IsOk());
  committed_ = std::max(committed_, step);
  most_committed_ = std::max(most_committed_, committed_);
}

void RandomEvents::SeekSomewhere() {
  const auto last = static_cast<int64_t>(steps_.size()) - 1;
  const int64_t step = std::max<int64_t>(last - Uniform(0, 6), -1);
  const Cursor cursor = CursorBehind(step);
  const auto rewinds =
      session_.Seek(step, cursor.next_sequences, cursor.finished);
  const bool retain = session_.config().retention == Retention::kRetain;
  if (retain && step + 1 < FirstNeeded()) {
    EXPECT_THAT(rewinds, HasReason(kCursorExpired));
    return;
  }
  ASSERT_THAT(rewinds, IsOkAndHolds(!retain));
  ++generation_;
  ++num_seeks_;
  committed_ = std::min(committed_, step);
  for (Reader& reader : readers_) RewindReader(reader, step);
  if (!retain) RewindProducers(step, cursor);
}

void RandomEvents::RewindReader(Reader& reader, int64_t step) {
  if (reader.connection != 0) reader.stale_connection = reader.connection;
  reader.connection = 0;
  reader.acked = step;
  reader.next = reader.unsent = step + 1;
  reader.credit = 0;
}

void RandomEvents::RewindProducers(int64_t step, const Cursor& cursor) {
  steps_.resize(step + 1);
  finished_at_.resize(step + 1);
  freed_ = step + 1;
  for (int p = 0; p < kProducers; ++p) {
    ForgetStream(feeds_[p]);
    feeds_[p].num_batches = cursor.next_sequences[p];
    feeds_[p].finished = cursor.finished[p];
  }
}

RandomEvents::Cursor RandomEvents::CursorBehind(int64_t step) const {
  Cursor cursor{.next_sequences = std::vector<int64_t>(kProducers, 0),
                .finished = std::vector<bool>(kProducers, false)};
  for (int64_t i = 0; i <= step; ++i) ++cursor.next_sequences[steps_[i].first];
  if (step < 0) return cursor;
  for (int p = 0; p < kProducers; ++p) {
    // One that had finished may still have had batches that waited.
    cursor.finished[p] = finished_at_[step][p] &&
                         feeds_[p].num_batches == cursor.next_sequences[p];
  }
  return cursor;
}

int64_t RandomEvents::SlowestAcked() const {
  int64_t slowest = readers_[0].acked;
  for (const Reader& reader : readers_) {
    slowest = std::min(slowest, reader.acked);
  }
  return slowest;
}

int64_t RandomEvents::FirstNeeded() const {
  int64_t first = SlowestAcked() + 1;
  if (session_.config().retention == Retention::kRetain) {
    first = std::min(first, committed_ + 1);
  }
  // What is freed stays so, also if a consumer attaches further back.
  return std::max(first, freed_);
}

bool RandomEvents::AllPublished() const {
  int64_t batches = 0;
  for (const Feed& feed : feeds_) {
    if (!feed.finished) return false;
    batches += feed.num_batches;
  }
  return batches == static_cast<int64_t>(steps_.size());
}

void RandomEvents::Compare() {
  ASSERT_EQ(session_.CheckInvariants(), "");
  ASSERT_EQ(session_.next_step(), static_cast<int64_t>(steps_.size()));
  ASSERT_EQ(session_.generation(), generation_);
  ASSERT_EQ(session_.committed_step(), committed_);
  freed_ = FirstNeeded();
  ASSERT_EQ(session_.first_held_step(), freed_);
  ASSERT_EQ(session_.all_finished(), AllPublished());
  for (int c = 0; c < kConsumers; ++c) {
    ASSERT_EQ(session_.consumers()[c].next_step, readers_[c].next);
    ASSERT_EQ(session_.consumers()[c].acked_step, readers_[c].acked);
  }
  for (int p = 0; p < kProducers; ++p) {
    ASSERT_EQ(session_.producers()[p].next_sequence, feeds_[p].num_batches);
    ASSERT_GE(session_.producers()[p].credit_bytes, feeds_[p].credit);
  }
  int64_t held = 0;
  for (int64_t i = freed_; i < static_cast<int64_t>(steps_.size()); ++i) {
    held += costs_.at(steps_[i]);
  }
  ASSERT_GE(session_.charged_bytes(), held);
  ASSERT_LE(session_.charged_bytes() + session_.reserved_bytes(),
            session_.config().memory_budget_bytes);
}

}  // namespace cpfeed::testing

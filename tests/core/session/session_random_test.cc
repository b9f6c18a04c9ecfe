// Thousands of random events against a model that knows nothing of how the
// session keeps its books.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/session/session.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::IsOkAndHolds;

constexpr int kProducers = 3;
constexpr int kRanks = 2;
constexpr int kConsumersPerRank = 2;
constexpr int kConsumers = kRanks * kConsumersPerRank;
constexpr int64_t kSkew = 4;
constexpr int64_t kLargest = 100;

// What a producer sends as a sequence, now and after every restart.
uint64_t ContentOf(int producer, int64_t sequence) {
  return static_cast<uint64_t>(producer) << 32 | sequence;
}

using Batch = std::pair<int, int64_t>;  // Producer and sequence.

// The steps that these batches make: turns go round the producers; one that has
// finished and has no more batches is passed over. From the beginning each
// time.
std::vector<Batch> StepsOf(const std::vector<int64_t>& num_batches,
                           const std::vector<bool>& finished) {
  std::vector<Batch> steps;
  std::vector<int64_t> taken(kProducers, 0);
  for (int turn = 0, passed = 0; passed < kProducers;
       turn = (turn + 1) % kProducers) {
    if (taken[turn] < num_batches[turn]) {
      steps.emplace_back(turn, taken[turn]++);
      passed = 0;
    } else if (finished[turn]) {
      ++passed;
    } else {
      break;
    }
  }
  return steps;
}

class RandomEvents {
 public:
  RandomEvents(Retention retention, uint64_t seed)
      : random_(seed), session_(ConfigFor(retention)) {
    EXPECT_THAT(ValidateConfig(session_.config()), IsOk());
  }

  void Run(int num_events) {
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

  // So that no run passes for want of events.
  int64_t num_deliveries() const { return num_deliveries_; }
  int64_t num_seeks() const { return num_seeks_; }
  bool ended() const { return ended_; }

 private:
  struct UnderWay {
    int64_t sequence = 0;
    int64_t bytes = 0;
  };
  struct Feed {
    int64_t connection = 0;  // 0: none.
    int64_t stale_connection = 0;
    int64_t incarnation = 0;
    int64_t credit = 0;  // As it was told.
    int64_t num_batches = 0;
    bool finished = false;
    std::vector<UnderWay> under_way;
  };
  struct Reader {
    int64_t connection = 0;
    int64_t stale_connection = 0;
    int64_t incarnation = 0;
    int64_t acked = -1;
    int64_t next = 0;
    int64_t unsent = 0;  // Behind the last that it was ever sent.
    int64_t credit = 0;
  };
  // What a cursor behind a step says.
  struct Cursor {
    std::vector<int64_t> next_sequences;
    std::vector<bool> finished;
  };

  static SessionConfig ConfigFor(Retention retention) {
    return {.cp_size = kRanks,
            .consumers_per_cp_rank = kConsumersPerRank,
            .producers = {"p0", "p1", "p2"},
            .retention = retention,
            .max_step_skew = kSkew,
            .max_uncommitted_steps = 6,
            .memory_budget_bytes = 12 * kLargest * kCostPerPayloadByte,
            .max_batch_bytes = kLargest};
  }

  int64_t Uniform(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random_);
  }
  bool OneIn(int count) { return Uniform(1, count) == 1; }

  // ---- Producers ----

  void ProducerEvent(int p) {
    Feed& feed = feeds_[p];
    if (feed.stale_connection != 0 && OneIn(20)) {
      EXPECT_THAT(session_.Admit(feed.stale_connection, 0, 0, 1, 4),
                  HasReason(kFenced));
      return;
    }
    if (feed.connection == 0 || OneIn(60)) return OpenProducer(p);
    feed.credit += *session_.TakeGrant(feed.connection);
    switch (Uniform(0, 9)) {
      case 0:
        if (OneIn(8)) return CloseProducer(p);
        return OfferKnown(p);
      case 1:
        return OfferGap(p);
      case 2:
        if (OneIn(4)) return FinishProducer(p);
        return RejectOne(p);
      case 3:
      case 4:
      case 5:
        return OfferNext(p);
      default:
        return CompleteOldest(p);
    }
  }

  void OpenProducer(int p) {
    Feed& feed = feeds_[p];
    const bool newer = OneIn(2);
    const bool older = !newer && feed.incarnation > 0 && OneIn(4);
    const int64_t incarnation = feed.incarnation + newer - older;
    const auto opened =
        session_.OpenProducer(session_.config().producers[p], incarnation);
    if (older || (feed.connection != 0 && !newer)) {
      EXPECT_THAT(opened, HasReason(kFenced));
      return;
    }
    ASSERT_THAT(opened, IsOk());
    ForgetStream(feed);
    feed.incarnation = incarnation;
    feed.connection = *opened;
  }

  void ForgetStream(Feed& feed) {
    if (feed.connection != 0) feed.stale_connection = feed.connection;
    feed.connection = 0;
    feed.credit = 0;
    feed.under_way.clear();
  }

  void CloseProducer(int p) {
    session_.CloseProducer(feeds_[p].connection);
    ForgetStream(feeds_[p]);
  }

  void OfferNext(int p) {
    Feed& feed = feeds_[p];
    const int64_t bytes = Uniform(1, kLargest);
    if (bytes > feed.credit) return;
    feed.credit -= bytes;
    const int64_t sequence =
        feed.num_batches + static_cast<int64_t>(feed.under_way.size());
    const auto admitted =
        session_.Admit(feed.connection, sequence, ContentOf(p, sequence), bytes,
                       bytes * kCostPerPayloadByte);
    if (feed.finished) {
      EXPECT_THAT(admitted, HasReason(kOutOfOrder));
      return;
    }
    ASSERT_THAT(admitted, IsOk());
    EXPECT_FALSE(admitted->duplicate);
    feed.under_way.push_back({sequence, bytes});
  }

  // A retry of a batch that was taken, mostly with the same content.
  void OfferKnown(int p) {
    Feed& feed = feeds_[p];
    if (feed.num_batches == 0 || feed.credit < 1) return;
    const int64_t sequence = Uniform(0, feed.num_batches - 1);
    const bool other = OneIn(4);
    const auto admitted = session_.Admit(feed.connection, sequence,
                                         ContentOf(p, sequence) + other, 1, 4);
    feed.credit -= 1;
    const auto step =
        std::find(steps_.begin(), steps_.end(), Batch(p, sequence));
    const int64_t number = step == steps_.end() ? -1 : step - steps_.begin();
    if (number >= 0 && number <= most_committed_) {
      EXPECT_TRUE(ReasonOf(admitted.status()) == kCursorExpired ||
                  (other ? ReasonOf(admitted.status()) == kSequenceConflict
                         : admitted.ok()))
          << admitted.status();
    } else if (other) {
      EXPECT_THAT(admitted, HasReason(kSequenceConflict));
    } else {
      ASSERT_THAT(admitted, IsOk());
      EXPECT_TRUE(admitted->duplicate);
      if (number >= 0) {
        EXPECT_EQ(admitted->step, number);
      }
    }
  }

  void OfferGap(int p) {
    Feed& feed = feeds_[p];
    if (feed.credit < 1) return;
    feed.credit -= 1;
    const int64_t sequence = feed.num_batches +
                             static_cast<int64_t>(feed.under_way.size()) +
                             Uniform(1, 3);
    EXPECT_THAT(session_.Admit(feed.connection, sequence, 0, 1, 4),
                HasReason(kOutOfOrder));
  }

  void RejectOne(int p) {
    Feed& feed = feeds_[p];
    if (feed.under_way.empty()) return;
    const auto which =
        Uniform(0, static_cast<int64_t>(feed.under_way.size()) - 1);
    EXPECT_THAT(
        session_.Reject(feed.connection, feed.under_way[which].sequence),
        IsOk());
    feed.under_way.resize(which);
  }

  void CompleteOldest(int p) {
    Feed& feed = feeds_[p];
    if (feed.under_way.empty()) return;
    const UnderWay batch = feed.under_way.front();
    int64_t cost = Uniform(1, batch.bytes * kCostPerPayloadByte);
    if (OneIn(3)) {
      cost = Uniform(1, kLargest * kCostPerPayloadByte);
      const auto fits =
          session_.Recharge(feed.connection, batch.sequence, cost);
      ASSERT_THAT(fits, IsOk());
      if (!*fits) return;
    }
    const int64_t first_new = session_.next_step();
    const auto published =
        session_.Complete(feed.connection, batch.sequence, cost);
    ASSERT_THAT(published, IsOk());
    feed.under_way.erase(feed.under_way.begin());
    costs_[{p, batch.sequence}] = cost;
    ++feed.num_batches;
    CheckPublished(first_new, *published);
  }

  void FinishProducer(int p) {
    Feed& feed = feeds_[p];
    const bool wrong = !OneIn(4);
    const int64_t first_new = session_.next_step();
    const auto published =
        session_.Finish(feed.connection, feed.num_batches + wrong);
    if (wrong || !feed.under_way.empty()) {
      EXPECT_THAT(published, HasReason(kOutOfOrder));
      return;
    }
    ASSERT_THAT(published, IsOk());
    feed.finished = true;
    feed.credit = 0;
    CheckPublished(first_new, *published);
  }

  // All or none, in turn order, without gaps.
  void CheckPublished(int64_t first_new,
                      const std::vector<PublishedStep>& published) {
    Cursor state;
    for (const Feed& feed : feeds_) {
      state.next_sequences.push_back(feed.num_batches);
      state.finished.push_back(feed.finished);
    }
    steps_ = StepsOf(state.next_sequences, state.finished);
    ASSERT_EQ(first_new + static_cast<int64_t>(published.size()),
              static_cast<int64_t>(steps_.size()));
    int64_t number = first_new;
    for (const PublishedStep& step : published) {
      ASSERT_EQ(step.step, number);
      ASSERT_EQ(Batch(step.producer, step.sequence), steps_[number]);
      ++number;
    }
    finished_at_.resize(steps_.size(), state.finished);
  }

  // ---- Consumers ----

  void ConsumerEvent(int c) {
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

  void DropReader(int c) {
    if (!OneIn(8)) return;
    Reader& reader = readers_[c];
    session_.CloseConsumer(reader.connection);
    reader.stale_connection = reader.connection;
    reader.connection = 0;
  }

  void AttachReader(int c) {
    Reader& reader = readers_[c];
    std::optional<int64_t> first;
    if (OneIn(3)) first = reader.next + Uniform(-4, 1);
    const bool newer = OneIn(2);
    const bool older = !newer && reader.incarnation > 0 && OneIn(5);
    const int64_t incarnation = reader.incarnation + newer - older;
    const auto attached =
        session_.Attach(c / kConsumersPerRank, c % kConsumersPerRank,
                        incarnation, OneIn(2) ? 0 : generation_, first);
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

  void AddCredit(Reader& reader) {
    const int64_t bytes = Uniform(0, 300);
    EXPECT_THAT(session_.AddCredit(reader.connection, bytes), IsOk());
    reader.credit += bytes;
  }

  void AckSome(Reader& reader) {
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

  void SendOne(int c) {
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

  // ---- The trainer ----

  void CommitSomething() {
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

  void SeekSomewhere() {
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

  void RewindReader(Reader& reader, int64_t step) {
    if (reader.connection != 0) reader.stale_connection = reader.connection;
    reader.connection = 0;
    reader.acked = step;
    reader.next = reader.unsent = step + 1;
    reader.credit = 0;
  }

  void RewindProducers(int64_t step, const Cursor& cursor) {
    steps_.resize(step + 1);
    finished_at_.resize(step + 1);
    freed_ = step + 1;
    for (int p = 0; p < kProducers; ++p) {
      ForgetStream(feeds_[p]);
      feeds_[p].num_batches = cursor.next_sequences[p];
      feeds_[p].finished = cursor.finished[p];
    }
  }

  Cursor CursorBehind(int64_t step) const {
    Cursor cursor{.next_sequences = std::vector<int64_t>(kProducers, 0),
                  .finished = std::vector<bool>(kProducers, false)};
    for (int64_t i = 0; i <= step; ++i)
      ++cursor.next_sequences[steps_[i].first];
    if (step < 0) return cursor;
    for (int p = 0; p < kProducers; ++p) {
      // One that had finished may still have had batches that waited.
      cursor.finished[p] = finished_at_[step][p] &&
                           feeds_[p].num_batches == cursor.next_sequences[p];
    }
    return cursor;
  }

  // ---- The model's view of the whole ----

  int64_t SlowestAcked() const {
    int64_t slowest = readers_[0].acked;
    for (const Reader& reader : readers_) {
      slowest = std::min(slowest, reader.acked);
    }
    return slowest;
  }

  int64_t FirstNeeded() const {
    int64_t first = SlowestAcked() + 1;
    if (session_.config().retention == Retention::kRetain) {
      first = std::min(first, committed_ + 1);
    }
    // What is freed stays so, also if a consumer attaches further back.
    return std::max(first, freed_);
  }

  bool AllPublished() const {
    int64_t batches = 0;
    for (const Feed& feed : feeds_) {
      if (!feed.finished) return false;
      batches += feed.num_batches;
    }
    return batches == static_cast<int64_t>(steps_.size());
  }

  void Compare() {
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

  std::mt19937_64 random_;
  Session session_;
  std::vector<Feed> feeds_ = std::vector<Feed>(kProducers);
  std::vector<Reader> readers_ = std::vector<Reader>(kConsumers);
  std::vector<Batch> steps_;
  std::vector<std::vector<bool>> finished_at_;  // When a step was published.
  std::map<Batch, int64_t> costs_;
  int64_t generation_ = 1;
  int64_t committed_ = -1;
  int64_t most_committed_ = -1;
  int64_t freed_ = 0;
  int64_t num_deliveries_ = 0;
  int64_t num_seeks_ = 0;
  bool ended_ = false;
};

class SessionRandomTest : public ::testing::TestWithParam<Retention> {};

TEST_P(SessionRandomTest, AgreesWithTheModel) {
  int64_t deliveries = 0;
  int64_t seeks = 0;
  int64_t ends = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    RandomEvents events(GetParam(), seed);
    events.Run(5000);
    if (HasFailure()) return;
    deliveries += events.num_deliveries();
    seeks += events.num_seeks();
    ends += events.ended();
  }
  EXPECT_GT(deliveries, 5000);
  EXPECT_GT(seeks, 20);
  EXPECT_GT(ends, 0);
}

INSTANTIATE_TEST_SUITE_P(All, SessionRandomTest,
                         ::testing::Values(Retention::kReplay,
                                           Retention::kRetain),
                         [](const auto& info) {
                           return info.param == Retention::kReplay ? "Replay"
                                                                   : "Retain";
                         });

}  // namespace
}  // namespace cpfeed

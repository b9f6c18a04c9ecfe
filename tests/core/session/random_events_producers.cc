// What producers do.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/session/session.h"
#include "tests/core/session/random_events.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed::testing {
namespace {

// What a producer sends as a sequence, now and after every restart.
uint64_t ContentOf(int producer, int64_t sequence) {
  return static_cast<uint64_t>(producer) << 32 | sequence;
}

// The steps that these batches make: turns go round the producers; one that has
// finished and has no more batches is passed over. From the beginning each
// time.
std::vector<std::pair<int, int64_t>> StepsOf(
    const std::vector<int64_t>& num_batches,
    const std::vector<bool>& finished) {
  const auto num_producers = static_cast<int>(finished.size());
  std::vector<std::pair<int, int64_t>> steps;
  std::vector<int64_t> taken(num_producers, 0);
  for (int turn = 0, passed = 0; passed < num_producers;
       turn = (turn + 1) % num_producers) {
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

}  // namespace

void RandomEvents::ProducerEvent(int p) {
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

void RandomEvents::OpenProducer(int p) {
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

void RandomEvents::ForgetStream(Feed& feed) {
  if (feed.connection != 0) feed.stale_connection = feed.connection;
  feed.connection = 0;
  feed.credit = 0;
  feed.under_way.clear();
}

void RandomEvents::CloseProducer(int p) {
  session_.CloseProducer(feeds_[p].connection);
  ForgetStream(feeds_[p]);
}

void RandomEvents::OfferNext(int p) {
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

void RandomEvents::OfferKnown(int p) {
  Feed& feed = feeds_[p];
  if (feed.num_batches == 0 || feed.credit < 1) return;
  const int64_t sequence = Uniform(0, feed.num_batches - 1);
  const bool other = OneIn(4);
  const auto admitted = session_.Admit(feed.connection, sequence,
                                       ContentOf(p, sequence) + other, 1, 4);
  feed.credit -= 1;
  const auto step = std::find(steps_.begin(), steps_.end(), Batch(p, sequence));
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

void RandomEvents::OfferGap(int p) {
  Feed& feed = feeds_[p];
  if (feed.credit < 1) return;
  feed.credit -= 1;
  const int64_t sequence = feed.num_batches +
                           static_cast<int64_t>(feed.under_way.size()) +
                           Uniform(1, 3);
  EXPECT_THAT(session_.Admit(feed.connection, sequence, 0, 1, 4),
              HasReason(kOutOfOrder));
}

void RandomEvents::RejectOne(int p) {
  Feed& feed = feeds_[p];
  if (feed.under_way.empty()) return;
  const auto which =
      Uniform(0, static_cast<int64_t>(feed.under_way.size()) - 1);
  EXPECT_THAT(session_.Reject(feed.connection, feed.under_way[which].sequence),
              IsOk());
  feed.under_way.resize(which);
}

void RandomEvents::CompleteOldest(int p) {
  Feed& feed = feeds_[p];
  if (feed.under_way.empty()) return;
  const UnderWay batch = feed.under_way.front();
  int64_t cost = Uniform(1, batch.bytes * kCostPerPayloadByte);
  if (OneIn(3)) {
    cost = Uniform(1, kLargest * kCostPerPayloadByte);
    const auto fits = session_.Recharge(feed.connection, batch.sequence, cost);
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

void RandomEvents::FinishProducer(int p) {
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

void RandomEvents::CheckPublished(int64_t first_new,
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

}  // namespace cpfeed::testing

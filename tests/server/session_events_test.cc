#include "server/session_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::IsOk;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr absl::Duration kLong = absl::Seconds(60);

std::vector<int64_t> NumbersOf(const SessionEvents::News& news) {
  std::vector<int64_t> numbers;
  for (const SessionEvent& event : news.events) {
    numbers.push_back(event.event());
  }
  return numbers;
}

void AddMany(SessionEvents& events, int count) {
  for (int i = 0; i < count; ++i) {
    events.Add(ConsumerEvent(v1::EVENT_KIND_STREAM_OPENED, i, 0));
  }
}

TEST(SessionEventsTest, WatcherGoesOnBehindWhatItSaw) {
  SessionEvents events;
  AddMany(events, 3);
  EXPECT_EQ(events.newest(), 3);
  EXPECT_THAT(NumbersOf(events.WaitPast(0, kLong)), ElementsAre(1, 2, 3));
  EXPECT_THAT(NumbersOf(events.WaitPast(2, kLong)), ElementsAre(3));
  EXPECT_THAT(NumbersOf(events.WaitPast(3, absl::ZeroDuration())), IsEmpty());
}

TEST(SessionEventsTest, WhoCameTooLateIsToldThatSomeAreMissing) {
  SessionEvents events(/*most_kept=*/2);
  AddMany(events, 5);
  const auto news = events.WaitPast(1, kLong);
  EXPECT_THAT(NumbersOf(news), ElementsAre(3, 4, 5));
  EXPECT_EQ(news.events[0].kind(), v1::EVENT_KIND_MISSED);
  EXPECT_EQ(news.events[1].kind(), v1::EVENT_KIND_STREAM_OPENED);
  EXPECT_EQ(news.events[1].cp_rank(), 3);
  EXPECT_THAT(NumbersOf(events.WaitPast(3, kLong)), ElementsAre(4, 5));
}

TEST(SessionEventsTest, EndComesBehindTheLastEvent) {
  SessionEvents events;
  AddMany(events, 1);
  events.Close(absl::NotFoundError("deleted"));
  AddMany(events, 1);  // Too late.
  const auto last = events.WaitPast(0, kLong);
  EXPECT_THAT(NumbersOf(last), ElementsAre(1));
  EXPECT_THAT(last.end, IsOk());
  EXPECT_TRUE(absl::IsNotFound(events.WaitPast(1, kLong).end));
}

TEST(SessionEventsTest, WaiterIsWoken) {
  SessionEvents events;
  SessionEvents::News news;
  std::thread waiter([&] { news = events.WaitPast(0, kLong); });
  AddMany(events, 1);
  waiter.join();
  EXPECT_THAT(NumbersOf(news), ElementsAre(1));
}

}  // namespace
}  // namespace cpfeed

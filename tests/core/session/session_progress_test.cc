// No deadlock: whatever the sizes of batches and whoever is slow, all steps get
// through as long as consumers acknowledge in the end.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "core/session/session.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::IsOk;

constexpr int64_t kLargest = 1000;

struct World {
  std::string name;
  int producers = 1;
  int consumers = 1;
  Retention retention = Retention::kReplay;
  // Largest batches that the budget holds above the least that is accepted.
  int spare_batches = 0;
  // Batches may grow to a largest batch's cost when they are converted.
  bool growth = false;

  friend void PrintTo(const World& world, std::ostream* out) {
    *out << world.name;
  }
};

// Producers, consumers and a trainer, each of which does what it can do as soon
// as the random scheduler lets it. A party of a lower priority moves only when
// nobody of a higher one can.
class Simulation {
 public:
  Simulation(const World& world, uint64_t seed)
      : world_(world), random_(seed), session_(ConfigFor(world)) {
    EXPECT_THAT(ValidateConfig(session_.config()), IsOk());
    for (int i = 0; i < world.producers; ++i) {
      Feed feed{.connection = *session_.OpenProducer(Id(i), 0)};
      const int64_t count = Uniform(0, 12);
      for (int64_t n = 0; n < count; ++n) feed.sizes.push_back(RandomSize());
      total_steps_ += count;
      feeds_.push_back(std::move(feed));
    }
    for (int i = 0; i < world.consumers; ++i) {
      readers_.push_back({.connection = *session_.Attach(i, 0, 0, 0, {})});
    }
    for (int i = 0; i < world.producers + world.consumers + 1; ++i) {
      priorities_.push_back(static_cast<int>(Uniform(0, 2)));
    }
  }

  // Until nothing moves any more.
  void Run() {
    while (MoveSomebody()) {
      ASSERT_EQ(session_.CheckInvariants(), "");
    }
    ASSERT_EQ(session_.next_step(), total_steps_) << State();
    for (const Reader& reader : readers_) {
      ASSERT_EQ(reader.next_step, total_steps_);
      ASSERT_EQ(session_.Next(reader.connection)->kind, Delivery::Kind::kEnd);
    }
  }

 private:
  struct Feed {
    int64_t connection = 0;
    std::vector<int64_t> sizes;  // Of its batches.
    int64_t credit = 0;          // As it was told.
    int64_t next_header = 0;
    int64_t next_complete = 0;
    int64_t cost = 0;  // Of the batch that is converted next; 0: unknown.
    bool finished = false;
  };
  struct Reader {
    int64_t connection = 0;
    int64_t next_step = 0;
    int64_t unacked_bytes = 0;
  };

  static SessionConfig ConfigFor(const World& world) {
    SessionConfig config{.cp_size = world.consumers,
                         .retention = world.retention,
                         .max_step_skew = 3,
                         .max_uncommitted_steps = 4,
                         .max_batch_bytes = kLargest};
    config.producers.clear();
    for (int i = 0; i < world.producers; ++i) config.producers.push_back(Id(i));
    int64_t batches = world.producers + world.spare_batches;
    if (world.retention == Retention::kRetain) {
      batches += config.max_uncommitted_steps;
    }
    config.memory_budget_bytes = batches * kLargest * kCostPerPayloadByte;
    return config;
  }

  static std::string Id(int i) { return "producer" + std::to_string(i); }

  int64_t Uniform(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random_);
  }

  int64_t RandomSize() {
    switch (Uniform(0, 3)) {
      case 0:
        return 1;
      case 1:
        return kLargest;
      case 2:
        return kLargest - 1;
      default:
        return Uniform(1, kLargest);
    }
  }

  // Lets one party move that can; false if none can.
  bool MoveSomebody() {
    for (int priority = 2; priority >= 0; --priority) {
      std::vector<int> parties;
      for (size_t i = 0; i < priorities_.size(); ++i) {
        if (priorities_[i] == priority) parties.push_back(static_cast<int>(i));
      }
      std::shuffle(parties.begin(), parties.end(), random_);
      for (const int party : parties) {
        if (Move(party)) return true;
      }
    }
    return false;
  }

  bool Move(int party) {
    if (party < world_.producers) return MoveProducer(feeds_[party]);
    party -= world_.producers;
    if (party < world_.consumers) return MoveConsumer(readers_[party]);
    return MoveTrainer();
  }

  bool MoveProducer(Feed& feed) {
    feed.credit += *session_.TakeGrant(feed.connection);
    const bool convert_first = Uniform(0, 1) == 0;
    return (convert_first && Convert(feed)) || SendHeader(feed) ||
           Convert(feed) || Finish(feed);
  }

  bool SendHeader(Feed& feed) {
    if (feed.next_header == static_cast<int64_t>(feed.sizes.size())) {
      return false;
    }
    const int64_t size = feed.sizes[feed.next_header];
    if (size > feed.credit) return false;
    EXPECT_THAT(session_.Admit(feed.connection, feed.next_header, 1, size,
                               size * kCostPerPayloadByte),
                IsOk());
    feed.credit -= size;
    ++feed.next_header;
    return true;
  }

  bool Convert(Feed& feed) {
    if (feed.next_complete == feed.next_header) return false;
    const int64_t charged =
        feed.sizes[feed.next_complete] * kCostPerPayloadByte;
    if (feed.cost == 0) {
      const int64_t most =
          world_.growth ? kLargest * kCostPerPayloadByte : charged;
      feed.cost = Uniform(1, 2) == 1 ? most : Uniform(1, most);
    }
    const auto fits =
        session_.Recharge(feed.connection, feed.next_complete, feed.cost);
    EXPECT_THAT(fits, IsOk());
    if (!fits.value_or(false)) return false;
    EXPECT_THAT(
        session_.Complete(feed.connection, feed.next_complete, feed.cost),
        IsOk());
    feed.cost = 0;
    ++feed.next_complete;
    return true;
  }

  bool Finish(Feed& feed) {
    const auto count = static_cast<int64_t>(feed.sizes.size());
    if (feed.finished || feed.next_complete < count) return false;
    EXPECT_THAT(session_.Finish(feed.connection, count), IsOk());
    feed.finished = true;
    return true;
  }

  bool MoveConsumer(Reader& reader) {
    const int64_t bytes = Uniform(1, 50);
    if (Uniform(0, 1) == 0 && *session_.TrySend(reader.connection, bytes)) {
      ++reader.next_step;
      reader.unacked_bytes += bytes;
      return true;
    }
    if (reader.unacked_bytes > 0) {
      EXPECT_THAT(session_.AddCredit(reader.connection, reader.unacked_bytes),
                  IsOk());
      EXPECT_THAT(session_.Ack(reader.connection, reader.next_step - 1),
                  IsOk());
      reader.unacked_bytes = 0;
      return true;
    }
    if (!*session_.TrySend(reader.connection, bytes)) return false;
    ++reader.next_step;
    reader.unacked_bytes += bytes;
    return true;
  }

  // Commits as seldom as it may.
  bool MoveTrainer() {
    int64_t used = INT64_MAX;
    for (const Reader& reader : readers_) {
      used = std::min(used, reader.next_step - 1);
    }
    if (used - session_.committed_step() <
        session_.config().max_uncommitted_steps) {
      return false;
    }
    EXPECT_THAT(session_.Commit(used), IsOk());
    return true;
  }

  std::string State() const {
    std::string state = "charged " + std::to_string(session_.charged_bytes()) +
                        ", promised " +
                        std::to_string(session_.reserved_bytes()) + " of " +
                        std::to_string(session_.config().memory_budget_bytes);
    for (const Feed& feed : feeds_) {
      state += "\nsent " + std::to_string(feed.next_header) + " of " +
               std::to_string(feed.sizes.size()) + ", credit " +
               std::to_string(feed.credit);
      if (feed.next_header < static_cast<int64_t>(feed.sizes.size())) {
        state += ", needs " + std::to_string(feed.sizes[feed.next_header]);
      }
    }
    return state;
  }

  const World world_;
  std::mt19937_64 random_;
  Session session_;
  std::vector<Feed> feeds_;
  std::vector<Reader> readers_;
  std::vector<int> priorities_;
  int64_t total_steps_ = 0;
};

class SessionProgressTest : public ::testing::TestWithParam<World> {};

TEST_P(SessionProgressTest, EverythingGetsThrough) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    Simulation(GetParam(), seed).Run();
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, SessionProgressTest,
    ::testing::ValuesIn(std::vector<World>{
        {"OneProducer"},
        {"TwoProducers", 2},
        {"ThreeProducers", 3, 2},
        {"FiveProducers", 5},
        {"LittleMoreThanTheLeast", 3, 2, Retention::kReplay, 1},
        {"Plenty", 3, 2, Retention::kReplay, 6},
        {"GrowingBatches", 1, 1, Retention::kReplay, 1, true},
        {"GrowingBatchesOfSeveral", 3, 2, Retention::kReplay, 1, true},
        {"GrowingBatchesInPlenty", 4, 1, Retention::kReplay, 5, true},
        {"Retain", 1, 1, Retention::kRetain},
        {"RetainOfSeveral", 3, 2, Retention::kRetain},
        {"RetainInPlenty", 2, 1, Retention::kRetain, 4},
        {"RetainGrowing", 3, 2, Retention::kRetain, 1, true},
    }),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace cpfeed

// Loaders and ranks that go on by themselves when the server is gone for a
// while, or the trainer goes back.

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "client/feed.h"
#include "client/resuming_reader.h"
#include "client/session_client.h"
#include "core/base/error.h"
#include "cpfeed/v1/session.grpc.pb.h"
#include "server/server.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::testing::ElementsAre;

constexpr char kSession[] = "sessions/train";
constexpr int64_t kBatches = 60;
constexpr absl::Duration kLong = absl::Seconds(60);

PackedBatch BatchOf(int64_t value) {
  PackedBatch batch;
  batch.input_ids =
      Tensor::FromVector<int64_t>({1, 8}, std::vector<int64_t>(8, value));
  batch.labels = batch.input_ids;
  return batch;
}

// Counts from where its state says; another pass every 20 batches.
class Counter {
 public:
  explicit Counter(int64_t count) : count_(count) {}

  BatchStream stream() {
    return {.next = [this]() -> absl::StatusOr<std::optional<OutgoingBatch>> {
              if (next_ == count_) return std::nullopt;
              const int64_t value = next_++;
              if (on_next) on_next(value);
              return OutgoingBatch{
                  .batch = BatchOf(value),
                  .info = {.producer_state = absl::StrCat(next_),
                           .data_epoch = value / 20}};
            },
            .go_to =
                [this](int64_t next_sequence, const auto& state) {
                  int64_t next = 0;
                  EXPECT_TRUE(!state || absl::SimpleAtoi(*state, &next));
                  EXPECT_EQ(next, next_sequence);
                  next_ = next;
                  ++gone_to;
                  return absl::OkStatus();
                }};
  }

  std::function<void(int64_t)> on_next;
  int gone_to = 0;

 private:
  const int64_t count_;
  int64_t next_ = 0;
};

class ResumeTest : public ::testing::Test {
 protected:
  void SetUp() override { StartServer(); }

  // Where the one before was, so that clients find it.
  void StartServer() {
    ServerOptions options;
    options.listen = absl::StrCat("127.0.0.1:", port_);
    options.drain_budget = absl::ZeroDuration();
    auto server = Server::Start(options);
    ASSERT_THAT(server, IsOk());
    server_ = *std::move(server);
    port_ = server_->port();
  }

  std::shared_ptr<grpc::Channel> Channel() const {
    return MakeChannel(absl::StrCat("127.0.0.1:", port_));
  }

  static v1::CreateSessionRequest Request() {
    v1::CreateSessionRequest request;
    request.set_session_id("train");
    v1::Session& session = *request.mutable_session();
    session.mutable_topology()->set_cp_size(2);
    session.mutable_topology()->set_consumers_per_cp_rank(2);
    session.mutable_delivery()->set_max_step_skew(4);
    session.mutable_limits()->set_max_batch_bytes(1000);
    return request;
  }

  static RetryOptions Quick() {
    return {.first_pause = absl::Milliseconds(10),
            .most_pause = absl::Milliseconds(100),
            .give_up_after = kLong};
  }

  struct Seen {
    std::vector<std::string> events;  // "7": step 7; "19|0": its pass ended.
    int64_t resumed = 0;
    absl::Status end;
  };

  // Reads to the end; `on_step` is called before a step is acknowledged.
  Seen ReadAll(int cp_rank, int consumer,
               const std::function<void(int64_t)>& on_step) {
    ResumingReaderOptions options{.reader = {.session = kSession,
                                             .cp_rank = cp_rank,
                                             .consumer = consumer},
                                  .retry = Quick()};
    if (cp_rank == 0 && consumer == 0) options.create = Request();
    Seen seen;
    auto reader = ResumingReader::Attach(Channel(), options);
    seen.end = reader.status();
    while (seen.end.ok()) {
      auto next = (*reader)->Next();
      seen.end = next.status();
      if (!next.ok() || !next->has_value()) break;
      const ReceivedStep& received = **next;
      const int64_t step = received.header.step();
      if (received.kind == ReceivedStep::Kind::kEpochEnd) {
        seen.events.push_back(
            absl::StrCat(step, "|", received.header.data_epoch()));
        continue;
      }
      EXPECT_EQ((*received.shard.chunks[0].tensors[0].tensor.ToInt64())[0],
                step);
      seen.events.push_back(absl::StrCat(step));
      if (on_step) on_step(step);
      (*reader)->Ack(step);
    }
    if (reader.ok()) seen.resumed = (*reader)->resumed();
    return seen;
  }

  static std::vector<std::string> Undisturbed() {
    std::vector<std::string> events;
    for (int64_t i = 0; i < kBatches; ++i) {
      if (i > 0 && i % 20 == 0) {
        events.push_back(absl::StrCat(i - 1, "|", i / 20 - 1));
      }
      events.push_back(absl::StrCat(i));
    }
    return events;
  }

  std::unique_ptr<Server> server_;
  int port_ = 0;
};

TEST_F(ResumeTest, NobodyLosesAStepWhenTheServerIsStartedAnewTwice) {
  absl::Notification first;
  absl::Notification second;
  const auto on_step = [&](int64_t step) {
    if (step == 20 && !first.HasBeenNotified()) first.Notify();
    if (step == 45 && !second.HasBeenNotified()) second.Notify();
  };
  std::vector<Seen> seen(4);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      // One of them tells how far they are.
      seen[i] = ReadAll(i / 2, i % 2,
                        i == 3 ? on_step : std::function<void(int64_t)>());
    });
  }
  Counter counter(kBatches);
  // The loader waits for the moments, so that no restart comes too late.
  counter.on_next = [&](int64_t value) {
    if (value == 30) first.WaitForNotificationWithTimeout(kLong);
    if (value == 50) second.WaitForNotificationWithTimeout(kLong);
  };
  absl::StatusOr<FedTotals> fed;
  std::thread loader([&] {
    fed = Feed(Channel(), {.stream = {.session = kSession}, .retry = Quick()},
               counter.stream());
  });
  for (absl::Notification* moment : {&first, &second}) {
    ASSERT_TRUE(moment->WaitForNotificationWithTimeout(kLong));
    server_.reset();
    StartServer();
  }
  loader.join();
  for (std::thread& thread : threads) thread.join();
  ASSERT_THAT(fed, IsOk());
  EXPECT_EQ(fed->num_batches, kBatches);
  EXPECT_EQ(fed->num_steps, kBatches);
  EXPECT_GE(fed->resumed, 2);
  for (const Seen& one : seen) {
    EXPECT_THAT(one.end, IsOk());
    EXPECT_EQ(one.events, Undisturbed());
    EXPECT_GE(one.resumed, 2);
  }
}

TEST_F(ResumeTest, NewerLoaderEndsTheOlder) {
  ASSERT_THAT(CreateSession(Channel(), Request()), IsOk());
  Counter counter(kBatches);
  absl::StatusOr<std::unique_ptr<Feeder>> newer;
  counter.on_next = [&](int64_t value) {
    if (value != 1) return;
    newer = Feeder::Open(Channel(), {.session = kSession});
    ASSERT_THAT(newer, IsOk());
  };
  EXPECT_THAT(
      Feed(Channel(), {.stream = {.session = kSession}, .retry = Quick()},
           counter.stream()),
      HasReason(kFenced));
}

TEST_F(ResumeTest, ErrorOfTheSourceIsTheCallers) {
  ASSERT_THAT(CreateSession(Channel(), Request()), IsOk());
  Counter counter(kBatches);
  BatchStream broken = counter.stream();
  broken.next = [] { return absl::UnavailableError("disk is away"); };
  EXPECT_EQ(Feed(Channel(), {.stream = {.session = kSession}, .retry = Quick()},
                 broken)
                .status(),
            absl::UnavailableError("disk is away"));
  EXPECT_EQ(counter.gone_to, 1);
}

TEST_F(ResumeTest, LoaderFollowsATrainerThatGoesBackAndARankIsTold) {
  ASSERT_THAT(CreateSession(Channel(), Request()), IsOk());
  Counter counter(8);
  absl::Notification sought;
  counter.on_next = [&](int64_t value) {
    if (value == 6) sought.WaitForNotificationWithTimeout(kLong);
  };
  absl::StatusOr<FedTotals> fed;
  std::thread loader([&] {
    fed = Feed(Channel(), {.stream = {.session = kSession}, .retry = Quick()},
               counter.stream());
  });
  auto reader = ResumingReader::Attach(
      Channel(), {.reader = {.session = kSession}, .retry = Quick()});
  ASSERT_THAT(reader, IsOk());
  v1::SeekSessionRequest request;
  request.set_name(kSession);
  for (int64_t step = 0; step < 3; ++step) {
    const auto next = (*reader)->Next();
    ASSERT_THAT(next, IsOk());
    if (step == 1) {
      ASSERT_TRUE(request.mutable_cursor()->ParseFromString((*next)->cursor));
    }
  }
  grpc::ClientContext context;
  v1::SeekSessionResponse response;
  ASSERT_TRUE(v1::SessionService::NewStub(Channel())
                  ->SeekSession(&context, request, &response)
                  .ok());
  absl::Status end;
  while (end.ok()) end = (*reader)->Next().status();
  EXPECT_THAT(end, HasReason(kRewound));
  sought.Notify();
  std::vector<std::thread> ranks;
  for (int i = 0; i < 4; ++i) {
    ranks.emplace_back([&, i] {
      EXPECT_THAT(ReadAll(i / 2, i % 2, nullptr).events,
                  ElementsAre("2", "3", "4", "5", "6", "7"));
    });
  }
  for (std::thread& rank : ranks) rank.join();
  loader.join();
  ASSERT_THAT(fed, IsOk());
  EXPECT_EQ(fed->num_batches, 8);
  // In band: the loader's stream is the one that it was.
  EXPECT_EQ(fed->resumed, 0);
  EXPECT_EQ(fed->rewound, 1);
  EXPECT_EQ(counter.gone_to, 2);
}

}  // namespace
}  // namespace cpfeed

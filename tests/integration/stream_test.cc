// Loaders and ranks against a real server in this process.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/feeder.h"
#include "client/session_client.h"
#include "client/shard_reader.h"
#include "core/base/error.h"
#include "server/server.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two sequences of 8 in one row; token ids tell batch and position.
PackedBatch MakeBatch(int64_t number) {
  std::vector<int64_t> ids(16);
  for (int i = 0; i < 16; ++i) ids[i] = 100 * number + i;
  PackedBatch batch;
  batch.input_ids = Tensor::FromVector<int64_t>({1, 16}, ids);
  batch.labels = Tensor::FromVector<int64_t>({1, 16}, std::move(ids));
  batch.seq_lens = RaggedLengths{{8, 8}, {0, 2}};
  batch.seq_lens_padded = batch.seq_lens;
  return batch;
}

std::vector<int64_t> Ids(const StepShard& shard) {
  for (const NamedTensor& named : shard.chunks[0].tensors) {
    if (named.name == "input_ids") return *named.tensor.ToInt64();
  }
  return {};
}

class StreamTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ServerOptions options;
    options.listen = "127.0.0.1:0";
    options.drain_budget = absl::Seconds(5);
    auto server = Server::Start(options);
    ASSERT_THAT(server, IsOk());
    server_ = *std::move(server);
    channel_ = MakeChannel(absl::StrCat("127.0.0.1:", server_->port()));
  }

  void Create(int cp_size, int consumers, std::vector<std::string> producers) {
    v1::CreateSessionRequest request;
    request.set_session_id("test");
    v1::Session& session = *request.mutable_session();
    session.mutable_topology()->set_cp_size(cp_size);
    session.mutable_topology()->set_consumers_per_cp_rank(consumers);
    for (std::string& id : producers) session.add_producers(std::move(id));
    session.mutable_limits()->set_memory_budget_bytes(64 << 20);
    session.mutable_limits()->set_max_batch_bytes(1 << 20);
    ASSERT_THAT(CreateSession(channel_, request), IsOk());
  }

  std::unique_ptr<Feeder> OpenFeeder(const std::string& producer) {
    auto feeder = Feeder::Open(
        channel_, {.session = "sessions/test", .producer = producer});
    EXPECT_THAT(feeder, IsOk());
    return *std::move(feeder);
  }

  void Feed(const std::string& producer, std::vector<int64_t> numbers) {
    const auto feeder = OpenFeeder(producer);
    for (const int64_t number : numbers) {
      ASSERT_THAT(feeder->Put(MakeBatch(number),
                              {.batch_id = absl::StrCat("b", number),
                               .producer_state = absl::StrCat("s", number)}),
                  IsOk());
    }
    ASSERT_THAT(feeder->Finish(), IsOk());
  }

  // The first token id of each step until the end.
  std::vector<int64_t> ReadAll(int cp_rank, int consumer) {
    auto reader = ShardReader::Attach(
        channel_,
        {.session = "sessions/test", .cp_rank = cp_rank, .consumer = consumer});
    EXPECT_THAT(reader, IsOk());
    std::vector<int64_t> firsts;
    while (true) {
      auto step = (*reader)->Next();
      EXPECT_THAT(step, IsOk());
      if (!step.ok() || !step->has_value()) return firsts;
      EXPECT_EQ((*step)->header.step(), firsts.size());
      firsts.push_back(Ids((*step)->shard)[0]);
      EXPECT_THAT((*reader)->Ack((*step)->header.step()), IsOk());
    }
  }

  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(StreamTest, EveryConsumerGetsItsShardOfEveryStepInOrder) {
  Create(/*cp_size=*/2, /*consumers=*/2, {});
  std::thread loader([&] { Feed("default", {0, 1, 2, 3, 4}); });
  std::vector<std::vector<int64_t>> got(4);
  std::vector<std::thread> consumers;
  for (int i = 0; i < 4; ++i) {
    consumers.emplace_back([&, i] { got[i] = ReadAll(i / 2, i % 2); });
  }
  loader.join();
  for (std::thread& consumer : consumers) consumer.join();
  // Rank 0 holds positions 0 1 6 7 of a sequence of 8, rank 1 holds 2 3 4 5.
  EXPECT_THAT(got[0], ElementsAre(0, 100, 200, 300, 400));
  EXPECT_THAT(got[1], ElementsAre(0, 100, 200, 300, 400));
  EXPECT_THAT(got[2], ElementsAre(2, 102, 202, 302, 402));
  EXPECT_THAT(got[3], ElementsAre(2, 102, 202, 302, 402));
  const auto session = GetSession(channel_, "sessions/test");
  ASSERT_THAT(session, IsOk());
  EXPECT_EQ(session->memory_bytes(), 0);
}

TEST_F(StreamTest, SeveralProducersTakeTurns) {
  Create(/*cp_size=*/1, /*consumers=*/1, {"a", "b"});
  std::thread a([&] { Feed("a", {1, 2, 3}); });
  std::thread b([&] { Feed("b", {10}); });
  EXPECT_THAT(ReadAll(0, 0), ElementsAre(100, 1000, 200, 300));
  a.join();
  b.join();
}

TEST_F(StreamTest, WrongBatchIsRejectedAndTheStreamGoesOn) {
  Create(/*cp_size=*/2, /*consumers=*/1, {});
  PackedBatch wrong = MakeBatch(0);
  wrong.seq_lens = RaggedLengths{{6, 10}, {0, 2}};
  wrong.seq_lens_padded = wrong.seq_lens;
  {
    const auto feeder = OpenFeeder("default");
    ASSERT_THAT(feeder->Put(wrong, {}), IsOk());
    const absl::Status status = feeder->Flush();
    EXPECT_THAT(status, AllOf(StatusIs(absl::StatusCode::kInvalidArgument,
                                       AllOf(HasSubstr("row 0"),
                                             HasSubstr("sequence 0: 6"),
                                             HasSubstr("multiple of 4"))),
                              HasReason(kNotDivisible)));
  }
  std::thread loader([&] { Feed("default", {7}); });
  std::thread other([&] { EXPECT_THAT(ReadAll(1, 0), ElementsAre(702)); });
  EXPECT_THAT(ReadAll(0, 0), ElementsAre(700));
  other.join();
  loader.join();
}

TEST_F(StreamTest, LoaderGetsItsStateBackWhenItOpensAgain) {
  Create(/*cp_size=*/1, /*consumers=*/1, {});
  {
    const auto feeder = OpenFeeder("default");
    EXPECT_EQ(feeder->next_sequence(), 0);
    EXPECT_FALSE(feeder->producer_state().has_value());
    ASSERT_THAT(feeder->Put(MakeBatch(5), {.producer_state = "after 5"}),
                IsOk());
    ASSERT_THAT(feeder->Flush(), IsOk());
  }
  const auto again = OpenFeeder("default");
  EXPECT_EQ(again->next_sequence(), 1);
  EXPECT_EQ(again->producer_state(), "after 5");
}

TEST_F(StreamTest, SlowConsumerHoldsTheFeederBackAndNothingIsLost) {
  Create(/*cp_size=*/1, /*consumers=*/1, {});
  std::vector<int64_t> numbers(200);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = i;
  std::thread loader([&] { Feed("default", numbers); });
  const std::vector<int64_t> firsts = ReadAll(0, 0);
  loader.join();
  ASSERT_EQ(firsts.size(), numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(firsts[i], 100 * i);
}

TEST_F(StreamTest, StoppingServerEndsStreamsWithUnavailable) {
  Create(/*cp_size=*/1, /*consumers=*/1, {});
  auto reader = ShardReader::Attach(channel_, {.session = "sessions/test"});
  ASSERT_THAT(reader, IsOk());
  std::thread stopper([&] { server_->Stop(); });
  EXPECT_THAT((*reader)->Next(),
              AllOf(StatusIs(absl::StatusCode::kUnavailable, HasSubstr("")),
                    HasReason(kDraining)));
  stopper.join();
}

TEST_F(StreamTest, NewerReaderFencesTheOlder) {
  Create(/*cp_size=*/1, /*consumers=*/1, {});
  auto older = ShardReader::Attach(
      channel_, {.session = "sessions/test", .incarnation = 1});
  ASSERT_THAT(older, IsOk());
  auto newer = ShardReader::Attach(
      channel_, {.session = "sessions/test", .incarnation = 2});
  ASSERT_THAT(newer, IsOk());
  EXPECT_THAT((*older)->Next(), HasReason(kFenced));
  EXPECT_THAT(ShardReader::Attach(
                  channel_, {.session = "sessions/test", .incarnation = 1}),
              HasReason(kFenced));
}

}  // namespace
}  // namespace cpfeed

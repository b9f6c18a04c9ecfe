// A batch that nothing is wrong with and that cannot be converted.

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/feeder.h"
#include "client/session_client.h"
#include "client/shard_reader.h"
#include "core/base/error.h"
#include "core/shard/shard_executor.h"
#include "cpfeed/v1/session.grpc.pb.h"
#include "server/server.h"
#include "tests/testing/status_matchers.h"
#include "transport/grpc_status.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::testing::AllOf;
using ::testing::ElementsAre;

constexpr char kSession[] = "sessions/train";
constexpr int64_t kFails = 666;   // Token ids of the batches that
constexpr int64_t kThrows = 667;  // are poison.

// The CPU's, which stumbles over two token ids.
class StumblingExecutor final : public ShardExecutor {
 public:
  absl::StatusOr<std::vector<StepShard>> Execute(
      const ThdBatch& batch,
      const std::vector<std::shared_ptr<const ShardPlan>>& plans)
      const override {
    const int64_t first = (*batch.tensors[0].tensor.ToInt64())[0];
    if (first == kFails) return absl::InternalError("token 666");
    if (first == kThrows) throw std::runtime_error("token 667");
    return cpu_->Execute(batch, plans);
  }

 private:
  const std::unique_ptr<ShardExecutor> cpu_ = MakeCpuShardExecutor();
};

PackedBatch BatchOf(int64_t value) {
  PackedBatch batch;
  batch.input_ids =
      Tensor::FromVector<int64_t>({1, 8}, std::vector<int64_t>(8, value));
  batch.labels = batch.input_ids;
  return batch;
}

class PoisonTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ServerOptions options;
    options.listen = "127.0.0.1:0";
    options.executor = std::make_shared<StumblingExecutor>();
    auto server = Server::Start(options);
    ASSERT_THAT(server, IsOk());
    server_ = *std::move(server);
    channel_ = MakeChannel(absl::StrCat("127.0.0.1:", server_->port()));
  }

  void Create(v1::PoisonPolicy policy) {
    v1::CreateSessionRequest request;
    request.set_session_id("train");
    v1::Session& session = *request.mutable_session();
    session.mutable_topology()->set_cp_size(2);
    session.mutable_topology()->set_consumers_per_cp_rank(2);
    session.mutable_delivery()->set_poison_policy(policy);
    session.mutable_limits()->set_max_batch_bytes(1000);
    ASSERT_THAT(CreateSession(channel_, request), IsOk());
  }

  // What a consumer sees, as text: "0", "1!POISONED", "1|7" (the pass 7 ends
  // with step 1), "3 steps".
  std::vector<std::string> ReadAll(int cp_rank, int consumer) {
    auto reader = ShardReader::Attach(
        channel_,
        {.session = kSession, .cp_rank = cp_rank, .consumer = consumer});
    EXPECT_THAT(reader, IsOk());
    std::vector<std::string> seen;
    while (true) {
      auto next = (*reader)->Next();
      EXPECT_THAT(next, IsOk());
      if (!next.ok()) return seen;
      if (!next->has_value()) {
        seen.push_back("end");
        return seen;
      }
      const ReceivedStep& received = **next;
      const int64_t step = received.header.step();
      std::string text = absl::StrCat(step);
      if (received.kind == ReceivedStep::Kind::kTombstone) {
        absl::StrAppend(&text, "!", received.reason);
      } else if (received.kind == ReceivedStep::Kind::kEpochEnd) {
        absl::StrAppend(&text, "|", received.header.data_epoch());
      }
      seen.push_back(text);
      const bool leader = cp_rank == 0 && consumer == 0;
      if (received.kind == ReceivedStep::Kind::kEpochEnd) continue;
      v1::Cursor cursor;
      EXPECT_TRUE(cursor.ParseFromString(received.cursor));
      if (leader) {
        EXPECT_EQ(cursor.step(), step);
      }
      EXPECT_EQ(received.cursor.empty(), !leader);
      EXPECT_THAT((*reader)->Ack(step), IsOk());
    }
  }

  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(PoisonTest, SkippedStepIsATombstoneAtEveryConsumer) {
  Create(v1::POISON_POLICY_SKIP_STEP);
  std::vector<v1::BatchReceipt> receipts;
  std::thread loader([&] {
    auto feeder = Feeder::Open(
        channel_, {.session = kSession, .on_receipt = [&](const auto& r) {
                     receipts.push_back(r);
                   }});
    ASSERT_THAT(feeder, IsOk());
    int64_t number = 0;
    for (const int64_t value : {1L, kFails, 2L, kThrows, 3L}) {
      // The pass changes behind step 1, a tombstone.
      ASSERT_THAT(
          (*feeder)->Put(BatchOf(value), {.data_epoch = number++ < 2 ? 7 : 8}),
          IsOk());
    }
    EXPECT_THAT((*feeder)->Finish(), IsOk());
  });
  std::vector<std::vector<std::string>> seen(4);
  std::vector<std::thread> consumers;
  for (int i = 0; i < 4; ++i) {
    consumers.emplace_back([&, i] { seen[i] = ReadAll(i / 2, i % 2); });
  }
  for (std::thread& consumer : consumers) consumer.join();
  loader.join();
  for (const auto& events : seen) {
    EXPECT_THAT(events, ElementsAre("0", "1!POISONED", "1|7", "2", "3!POISONED",
                                    "4", "end"));
  }
  ASSERT_EQ(receipts.size(), 5);
  EXPECT_EQ(receipts[0].outcome(), v1::BatchReceipt::OUTCOME_ACCEPTED);
  EXPECT_EQ(receipts[1].outcome(), v1::BatchReceipt::OUTCOME_SKIPPED);
  EXPECT_EQ(receipts[1].step(), 1);
  EXPECT_EQ(receipts[3].outcome(), v1::BatchReceipt::OUTCOME_SKIPPED);
  EXPECT_THAT(receipts[3].status().message(),
              ::testing::HasSubstr("token 667"));
  EXPECT_EQ(server_->registry().quarantined_batches(), 2);
  EXPECT_EQ(GetSession(channel_, kSession)->memory_bytes(), 0);
}

TEST_F(PoisonTest, SessionFailsByNameUnlessItSaysToSkip) {
  Create(v1::POISON_POLICY_UNSPECIFIED);
  auto reader = ShardReader::Attach(channel_, {.session = kSession});
  ASSERT_THAT(reader, IsOk());
  auto feeder = Feeder::Open(channel_, {.session = kSession});
  ASSERT_THAT(feeder, IsOk());
  ASSERT_THAT((*feeder)->Put(BatchOf(kFails), {}), IsOk());
  EXPECT_THAT((*feeder)->Flush(), HasReason(kPoisoned));
  EXPECT_THAT((*reader)->Next(), HasReason(kPoisoned));
  const auto session = GetSession(channel_, kSession);
  ASSERT_THAT(session, IsOk());
  EXPECT_EQ(session->state(), v1::SESSION_STATE_FAILED);
  EXPECT_THAT(session->state_detail(), ::testing::HasSubstr("token 666"));
}

TEST_F(PoisonTest, WatchTellsOfItAndOfTheEnd) {
  Create(v1::POISON_POLICY_SKIP_STEP);
  grpc::ClientContext context;
  v1::WatchSessionRequest request;
  request.set_name(kSession);
  const auto stub = v1::SessionService::NewStub(channel_);
  const auto watch = stub->WatchSession(&context, request);
  v1::WatchSessionResponse event;
  ASSERT_TRUE(watch->Read(&event));
  EXPECT_EQ(event.kind(), v1::EVENT_KIND_CURRENT);
  EXPECT_EQ(event.state(), v1::SESSION_STATE_READY);
  {
    auto feeder = Feeder::Open(channel_, {.session = kSession});
    ASSERT_THAT(feeder, IsOk());
    ASSERT_THAT((*feeder)->Put(BatchOf(kFails), {}), IsOk());
    ASSERT_THAT((*feeder)->Flush(), IsOk());
  }
  std::vector<v1::EventKind> kinds;
  const auto read_until = [&](v1::EventKind last) {
    while (watch->Read(&event)) {
      kinds.push_back(event.kind());
      if (event.kind() == last) return;
    }
  };
  read_until(v1::EVENT_KIND_QUARANTINED);
  EXPECT_EQ(event.producer(), "default");
  EXPECT_EQ(event.sequence(), 0);
  read_until(v1::EVENT_KIND_STREAM_ENDED);
  EXPECT_THAT(
      kinds,
      ElementsAre(v1::EVENT_KIND_STREAM_OPENED, v1::EVENT_KIND_QUARANTINED,
                  v1::EVENT_KIND_STATE, v1::EVENT_KIND_STREAM_ENDED));
  ASSERT_THAT(DeleteSession(channel_, kSession, /*force=*/true), IsOk());
  read_until(v1::EVENT_KIND_DELETED);
  EXPECT_EQ(kinds.back(), v1::EVENT_KIND_DELETED);
  EXPECT_FALSE(watch->Read(&event));
  EXPECT_THAT(FromGrpcStatus(watch->Finish()), HasReason(kSessionDeleted));
}

}  // namespace
}  // namespace cpfeed

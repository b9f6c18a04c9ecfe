// Checkpoints: cursors that ranks receive, commit, and going back to them.

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/feeder.h"
#include "client/session_client.h"
#include "client/shard_reader.h"
#include "core/base/error.h"
#include "core/wire/cursor_codec.h"
#include "cpfeed/v1/session.grpc.pb.h"
#include "cpfeed/v1/session.pb.h"
#include "server/server.h"
#include "tests/testing/status_matchers.h"
#include "transport/grpc_status.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::IsOkAndHolds;
using ::cpfeed::testing::StatusIs;
using ::testing::HasSubstr;

constexpr char kSession[] = "sessions/train";

PackedBatch BatchOf(int64_t value) {
  PackedBatch batch;
  batch.input_ids =
      Tensor::FromVector<int64_t>({1, 4}, std::vector<int64_t>(4, value));
  batch.labels = batch.input_ids;
  return batch;
}

class CursorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ServerOptions options;
    options.listen = "127.0.0.1:0";
    auto server = Server::Start(options);
    ASSERT_THAT(server, IsOk());
    server_ = *std::move(server);
    channel_ = MakeChannel(absl::StrCat("127.0.0.1:", server_->port()));
    ASSERT_THAT(CreateSession(channel_, Request()), IsOk());
  }

  virtual v1::Retention retention() const { return v1::RETENTION_REPLAY; }

  v1::CreateSessionRequest Request() const {
    v1::CreateSessionRequest request;
    request.set_session_id("train");
    v1::Session& session = *request.mutable_session();
    session.mutable_topology()->set_cp_size(1);
    session.mutable_delivery()->set_retention(retention());
    session.mutable_limits()->set_max_batch_bytes(1000);
    return request;
  }

  // Puts batches with these values from the session's next sequence on.
  void Feed(const std::vector<int64_t>& values) {
    auto feeder = Feeder::Open(channel_, {.session = kSession});
    ASSERT_THAT(feeder, IsOk());
    for (const int64_t value : values) {
      ASSERT_THAT((*feeder)->Put(BatchOf(value),
                                 {.producer_state = absl::StrCat(value)}),
                  IsOk());
    }
    ASSERT_THAT((*feeder)->Flush(), IsOk());
  }

  // Reads and acknowledges `count` steps; returns the values.
  std::vector<int64_t> Read(int count, std::vector<v1::Cursor>* cursors) {
    auto reader = ShardReader::Attach(channel_, {.session = kSession});
    EXPECT_THAT(reader, IsOk());
    std::vector<int64_t> values;
    for (int i = 0; i < count; ++i) {
      auto step = (*reader)->Next();
      EXPECT_THAT(step, IsOk());
      values.push_back(
          (*(*step)->shard.chunks[0].tensors[0].tensor.ToInt64())[0]);
      v1::Cursor cursor;
      EXPECT_TRUE(cursor.ParseFromString((*step)->cursor));
      EXPECT_EQ(cursor.step(), (*step)->header.step());
      if (cursors != nullptr) cursors->push_back(cursor);
      EXPECT_THAT((*reader)->Ack((*step)->header.step()), IsOk());
    }
    return values;
  }

  absl::StatusOr<v1::Session> Seek(const v1::Cursor& cursor) {
    grpc::ClientContext context;
    v1::SeekSessionRequest request;
    request.set_name(kSession);
    *request.mutable_cursor() = cursor;
    v1::SeekSessionResponse response;
    const auto status = v1::SessionService::NewStub(channel_)->SeekSession(
        &context, request, &response);
    if (!status.ok()) return FromGrpcStatus(status);
    return response.session();
  }

  absl::StatusOr<int64_t> Commit(const v1::Cursor& cursor) {
    grpc::ClientContext context;
    v1::CommitCursorRequest request;
    request.set_name(kSession);
    *request.mutable_cursor() = cursor;
    v1::CommitCursorResponse response;
    const auto status = v1::SessionService::NewStub(channel_)->CommitCursor(
        &context, request, &response);
    if (!status.ok()) return FromGrpcStatus(status);
    return response.committed_step();
  }

  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(CursorTest, TrainerGoesBackAndTheLoaderReplaysFromItsState) {
  Feed({10, 11, 12});
  std::vector<v1::Cursor> cursors;
  EXPECT_EQ(Read(3, &cursors), std::vector<int64_t>({10, 11, 12}));
  EXPECT_THAT(Commit(cursors[0]), IsOkAndHolds(0));
  EXPECT_THAT(Commit(cursors[0]), IsOkAndHolds(0));  // Idempotent.
  const auto session = Seek(cursors[0]);
  ASSERT_THAT(session, IsOk());
  EXPECT_EQ(session->generation(), 2);
  EXPECT_EQ(session->next_step(), 1);
  auto feeder = Feeder::Open(channel_, {.session = kSession});
  ASSERT_THAT(feeder, IsOk());
  EXPECT_EQ((*feeder)->next_sequence(), 1);
  EXPECT_EQ((*feeder)->producer_state(), "10");
  feeder->reset();
  Feed({11, 12, 13});
  EXPECT_EQ(Read(3, nullptr), std::vector<int64_t>({11, 12, 13}));
}

TEST_F(CursorTest, ReplayThatDiffersIsAConflict) {
  Feed({10, 11});
  std::vector<v1::Cursor> cursors;
  Read(2, &cursors);
  ASSERT_THAT(Seek(cursors[0]), IsOk());
  auto feeder = Feeder::Open(channel_, {.session = kSession});
  ASSERT_THAT(feeder, IsOk());
  ASSERT_THAT((*feeder)->Put(BatchOf(99), {}), IsOk());
  EXPECT_THAT((*feeder)->Flush(), HasReason(kSequenceConflict));
}

TEST_F(CursorTest, StreamsOfTheOldGenerationEnd) {
  Feed({10, 11});
  std::vector<v1::Cursor> cursors;
  Read(1, &cursors);
  auto reader = ShardReader::Attach(channel_, {.session = kSession});
  ASSERT_THAT(reader, IsOk());
  ASSERT_THAT((*reader)->Next(), IsOk());
  ASSERT_THAT(Seek(cursors[0]), IsOk());
  EXPECT_THAT((*reader)->Next(), HasReason(kRewound));
  EXPECT_THAT(
      ShardReader::Attach(channel_, {.session = kSession, .generation = 1}),
      HasReason(kFenced));
}

TEST_F(CursorTest, ChangedCursorIsRefused) {
  Feed({10});
  std::vector<v1::Cursor> cursors;
  Read(1, &cursors);
  cursors[0].set_step(5);
  EXPECT_THAT(Seek(cursors[0]), HasReason(kCursorMismatch));
  EXPECT_THAT(Commit(cursors[0]), HasReason(kCursorMismatch));
}

TEST_F(CursorTest, StartCursorThatMakesNoSenseIsRefused) {
  Feed({10});
  std::vector<v1::Cursor> cursors;
  Read(1, &cursors);
  v1::Cursor good = cursors[0];
  good.set_step(4);
  good.mutable_producers(0)->set_next_sequence(5);
  v1::CreateSessionRequest request = Request();
  request.set_session_id("other");
  request.set_allow_topology_change(true);
  const auto create = [&](v1::Cursor cursor) {
    SealCursor(cursor);
    *request.mutable_start_cursor() = std::move(cursor);
    return CreateSession(channel_, request);
  };
  v1::Cursor of_others = good;
  of_others.mutable_producers(0)->set_producer("somebody");
  EXPECT_THAT(create(of_others), HasReason(kCursorMismatch));
  v1::Cursor negative = good;
  negative.set_step(-5);
  EXPECT_THAT(create(negative), HasReason(kCursorMismatch));
  v1::Cursor far_away = good;
  far_away.mutable_producers(0)->set_next_sequence(INT64_MAX);
  EXPECT_THAT(create(far_away), HasReason(kCursorMismatch));
  v1::Cursor long_state = good;
  long_state.mutable_producers(0)->set_producer_state(
      std::string((64 << 10) + 1, 's'));
  EXPECT_THAT(create(long_state), HasReason(kCursorMismatch));
  v1::Cursor of_other_data = good;
  of_other_data.set_spec_digest(1);
  of_other_data.set_schema_digest(2);
  EXPECT_THAT(create(of_other_data), HasReason(kCursorMismatch));
  // The server goes on.
  const auto session = create(good);
  ASSERT_THAT(session, IsOk());
  EXPECT_EQ(session->next_step(), 5);
}

TEST_F(CursorTest, RankCannotJumpPastStepsThatItWasNotSent) {
  Feed({10, 11});
  const auto reader =
      ShardReader::Attach(channel_, {.session = kSession, .first_step = 1});
  EXPECT_THAT(reader,
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("first_step is 1; must be at most 0")));
  EXPECT_THAT(reader, HasReason(kCursorMismatch));
}

TEST_F(CursorTest, JobGoesOnWithAnotherCpSize) {
  Feed({10, 11});
  std::vector<v1::Cursor> cursors;
  Read(2, &cursors);
  v1::CreateSessionRequest request = Request();
  request.set_session_id("wider");
  *request.mutable_start_cursor() = cursors[0];
  v1::Session& session = *request.mutable_session();
  session.mutable_topology()->set_cp_size(2);
  EXPECT_THAT(CreateSession(channel_, request), HasReason(kTopologyMismatch));
  request.set_allow_topology_change(true);
  // What makes another stream is refused still.
  session.mutable_topology()->set_dp_size(2);
  EXPECT_THAT(CreateSession(channel_, request), HasReason(kCursorMismatch));
  session.mutable_topology()->set_dp_size(1);
  session.add_producers("another");
  EXPECT_THAT(CreateSession(channel_, request), HasReason(kCursorMismatch));
  session.clear_producers();
  const auto wider = CreateSession(channel_, request);
  ASSERT_THAT(wider, IsOk());
  EXPECT_EQ(wider->next_step(), 1);
  auto feeder = Feeder::Open(channel_, {.session = "sessions/wider"});
  ASSERT_THAT(feeder, IsOk());
  EXPECT_EQ((*feeder)->next_sequence(), 1);
  EXPECT_EQ((*feeder)->producer_state(), "10");
  ASSERT_THAT((*feeder)->Put(BatchOf(11), {}), IsOk());
  ASSERT_THAT((*feeder)->Flush(), IsOk());
  for (int rank = 0; rank < 2; ++rank) {
    auto reader = ShardReader::Attach(
        channel_, {.session = "sessions/wider", .cp_rank = rank});
    ASSERT_THAT(reader, IsOk());
    const auto step = (*reader)->Next();
    ASSERT_THAT(step, IsOk());
    EXPECT_EQ((*step)->header.step(), 1);
    EXPECT_EQ((*step)->shard.chunks[0].tensors[0].tensor.ToInt64()->size(), 2);
  }
}

class RetainTest : public CursorTest {
 protected:
  v1::Retention retention() const override { return v1::RETENTION_RETAIN; }
};

TEST_F(RetainTest, TrainerGoesBackWithoutTheLoader) {
  Feed({10, 11, 12});
  std::vector<v1::Cursor> cursors;
  EXPECT_EQ(Read(3, &cursors), std::vector<int64_t>({10, 11, 12}));
  EXPECT_THAT(Commit(cursors[0]), IsOkAndHolds(0));
  auto feeder = Feeder::Open(channel_, {.session = kSession});
  ASSERT_THAT(feeder, IsOk());
  ASSERT_THAT(Seek(cursors[0]), IsOk());
  // The loader's stream goes on.
  ASSERT_THAT((*feeder)->Put(BatchOf(13), {}), IsOk());
  ASSERT_THAT((*feeder)->Flush(), IsOk());
  EXPECT_EQ(Read(3, nullptr), std::vector<int64_t>({11, 12, 13}));
}

}  // namespace
}  // namespace cpfeed

// Batches at the limits, end to end: a rank can read whatever is accepted, and
// what is not is refused before anybody waits for it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/feeder.h"
#include "client/session_client.h"
#include "client/shard_reader.h"
#include "core/base/error.h"
#include "core/batch/packed_batch.h"
#include "core/wire/batch_codec.h"
#include "cpfeed/v1/session.pb.h"
#include "server/server.h"
#include "tests/testing/packed_batches.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::CountingBatch;
using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kSession[] = "sessions/limits";
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

class BatchLimitsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ServerOptions options;
    options.listen = "127.0.0.1:0";
    auto server = Server::Start(options);
    ASSERT_THAT(server, IsOk());
    server_ = *std::move(server);
    channel_ = MakeChannel(absl::StrCat("127.0.0.1:", server_->port()));
    request_.set_session_id("limits");
    request_.mutable_session()->mutable_topology()->set_cp_size(2);
  }

  void Create() { ASSERT_THAT(CreateSession(channel_, request_), IsOk()); }

  absl::Status Put(const PackedBatch& batch, const BatchInfo& info = {}) {
    auto feeder = Feeder::Open(channel_, {.session = kSession});
    if (!feeder.ok()) return feeder.status();
    const absl::Status put = (*feeder)->Put(batch, info);
    return put.ok() ? (*feeder)->Flush() : put;
  }

  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  v1::CreateSessionRequest request_;
};

TEST_F(BatchLimitsTest, LargestBatchHasRoomForItsState) {
  const PackedBatch batch = CountingBatch(1, 64);
  const std::string state(100, 's');
  const int64_t bytes = EncodeBatch(batch, state).payload.size();
  request_.mutable_session()->mutable_limits()->set_max_batch_bytes(bytes);
  Create();
  EXPECT_THAT(Put(batch, {.producer_state = state}), IsOk());
}

// No credit would ever cover it.
TEST_F(BatchLimitsTest, StateCountsAsPartOfTheBatch) {
  const PackedBatch batch = CountingBatch(1, 64);
  const int64_t bytes = EncodeBatch(batch, "").payload.size();
  request_.mutable_session()->mutable_limits()->set_max_batch_bytes(bytes);
  Create();
  const absl::Status refused = Put(batch, {.producer_state = "s"});
  EXPECT_THAT(
      refused,
      StatusIs(kInvalid, AllOf(HasSubstr(absl::StrCat("has ", bytes + 1)),
                               HasSubstr(absl::StrCat("at most ", bytes)))));
  EXPECT_THAT(refused, HasReason(kBatchTooLarge));
}

TEST_F(BatchLimitsTest, RankReadsABatchOfTheMostTensors) {
  Create();
  PackedBatch batch = CountingBatch(1, 8);
  for (int i = 0; i < 62; ++i) {
    batch.extras.push_back({absl::StrCat("extra", i), batch.labels});
  }
  ASSERT_THAT(Put(batch), IsOk());
  auto reader = ShardReader::Attach(channel_, {.session = kSession});
  ASSERT_THAT(reader, IsOk());
  const auto step = (*reader)->Next();
  ASSERT_THAT(step, IsOk());
  // And position_ids and padding_mask.
  EXPECT_EQ((*step)->shard.chunks[0].tensors.size(), 66);
}

TEST_F(BatchLimitsTest, StepWhoseHeaderIsTooLongIsRefused) {
  v1::Session& session = *request_.mutable_session();
  session.mutable_sharding()->set_num_chunks(16);
  Create();
  PackedBatch batch = CountingBatch(16, 4);
  for (int i = 0; i < 60; ++i) {
    const std::string name = absl::StrCat(std::string(100, 'n'), i);
    batch.extras.push_back({name, batch.labels});
  }
  const absl::Status refused = Put(batch);
  EXPECT_THAT(refused,
              StatusIs(kInvalid, AllOf(HasSubstr("headers of the step's 16"),
                                       HasSubstr("at most 65536"))));
  EXPECT_THAT(refused, HasReason(kBatchTooLarge));
  // The session goes on.
  EXPECT_THAT(Put(CountingBatch(16, 4)), IsOk());
}

TEST_F(BatchLimitsTest, LongBatchIdIsRefused) {
  Create();
  const std::string longest(256, 'i');
  EXPECT_THAT(Put(CountingBatch(1, 8), {.batch_id = longest}), IsOk());
  EXPECT_THAT(Put(CountingBatch(1, 8), {.batch_id = longest + "i"}),
              StatusIs(kInvalid, HasSubstr("batch_id has 257 bytes")));
}

TEST_F(BatchLimitsTest, ExtraTensorMayNotBeNamedAsOneOfAShard) {
  Create();
  PackedBatch batch = CountingBatch(1, 8);
  batch.extras.push_back({"segments", batch.labels});
  EXPECT_THAT(Put(batch), StatusIs(kInvalid, HasSubstr("\"segments\"")));
}

TEST_F(BatchLimitsTest, SessionMayNotListATensorOfAShard) {
  v1::Session& session = *request_.mutable_session();
  session.add_tensors()->set_name("input_ids");
  session.add_tensors()->set_name("local_cu_seqlens");
  const auto refused = CreateSession(channel_, request_);
  EXPECT_THAT(refused,
              StatusIs(kInvalid, AllOf(HasSubstr("tensors[1]"),
                                       HasSubstr("\"local_cu_seqlens\""))));
  EXPECT_THAT(refused, HasReason(kBadOption));
  session.mutable_tensors(1)->set_name("loss_mask");
  EXPECT_THAT(CreateSession(channel_, request_), IsOk());
}

}  // namespace
}  // namespace cpfeed

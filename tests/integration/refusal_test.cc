// Wrong input through gRPC: a typed error that names what is wrong, and a
// stream and a server that go on.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "client/feeder.h"
#include "client/session_client.h"
#include "client/shard_reader.h"
#include "core/base/error.h"
#include "core/wire/batch_codec.h"
#include "core/wire/frame.h"
#include "core/wire/status_codec.h"
#include "server/server.h"
#include "tests/testing/status_matchers.h"
#include "transport/client_stream.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int64_t> Counting(int64_t count) {
  std::vector<int64_t> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = i;
  return values;
}

// Two rows of 8 tokens, two sequences of 4 each.
PackedBatch GoodBatch() {
  PackedBatch batch;
  batch.input_ids = Tensor::FromVector<int64_t>({2, 8}, Counting(16));
  batch.labels = Tensor::FromVector<int64_t>({2, 8}, Counting(16));
  batch.seq_lens = RaggedLengths{{4, 4, 4, 4}, {0, 2, 4}};
  batch.seq_lens_padded = batch.seq_lens;
  return batch;
}

struct Refusal {
  friend void PrintTo(const Refusal& refusal, std::ostream* out) {
    *out << refusal.name;
  }
  std::string name;
  std::function<void(PackedBatch&)> spoil;
  std::string reason;
  std::vector<std::string> parts;  // Of the message.
};

std::vector<Refusal> Refusals() {
  const auto real = [](std::vector<int64_t> values) {
    return [=](PackedBatch& batch) { batch.seq_lens->values = values; };
  };
  return {
      {"RealAbovePadded",
       real({4, 5, 4, 4}),
       kLengthsInconsistent,
       {"row 0", "sequence 1", "5", "4"}},
      {"NegativeLength",
       real({4, 4, -3, 4}),
       kLengthsInconsistent,
       {"row 1", "-3"}},
      {"SentinelBeforeRealEntry",
       real({-1000, 4, 4, 4}),
       kLengthsInconsistent,
       {"row 0"}},
      {"CountsDiffer",
       real({4, -1000, 4, 4}),
       kLengthsInconsistent,
       {"row 0", "1", "2"}},
      {"RowSumIsNotTheWidth",
       [](PackedBatch& batch) {
         batch.seq_lens->values = {4, 4, 4, 3};
         batch.seq_lens_padded->values = {4, 4, 4, 3};
       },
       kLengthsInconsistent,
       {"row 1", "7", "8"}},
      {"SlotDoesNotDivide",
       [](PackedBatch& batch) {
         batch.seq_lens->values = {4, 4, 2, 6};
         batch.seq_lens_padded->values = {4, 4, 2, 6};
       },
       kNotDivisible,
       {"row 1", "sequence 0: 2", "sequence 1: 6", "multiple of 4"}},
      {"PaddedWithoutReal",
       [](PackedBatch& batch) { batch.seq_lens.reset(); },
       kLengthsInconsistent,
       {"seq_lens_padded"}},
      {"NoLabels",
       [](PackedBatch& batch) {
         const Tensor none;
         batch.labels = none;
       },
       kBatchMalformed,
       {"labels"}},
      {"LabelsOfAnotherShape",
       [](PackedBatch& batch) {
         batch.labels = Tensor::FromVector<int64_t>({2, 7}, Counting(14));
       },
       kShapeMismatch,
       {"labels", "7", "8"}},
      {"ExtraOfAnotherLength",
       [](PackedBatch& batch) {
         batch.extras.push_back(
             {.name = "loss_mask",
              .tensor = Tensor::FromVector<int64_t>({2, 9}, Counting(18))});
       },
       kShapeMismatch,
       {"loss_mask", "9"}},
      {"DenseMask",
       [](PackedBatch& batch) {
         batch.attention_mask =
             Tensor::FromVector<int64_t>({2, 8, 8}, Counting(128));
       },
       kMaskNotSupported,
       {"attention_mask"}},
      {"OtherPaddingMask",
       [](PackedBatch& batch) {
         batch.padding_mask =
             Tensor{.dtype = DType::kBool,
                    .shape = {2, 8},
                    .bytes = Buffer::FromVector(std::vector<uint8_t>(16, 1))};
       },
       kLengthsInconsistent,
       {"padding_mask", "row 0"}},
      {"NoTokens",
       [](PackedBatch& batch) {
         batch.input_ids = Tensor::FromVector<int64_t>({2, 0}, {});
         batch.labels = Tensor::FromVector<int64_t>({2, 0}, {});
       },
       kShapeMismatch,
       {"input_ids"}},
  };
}

class ServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ServerOptions options;
    options.listen = "127.0.0.1:0";
    auto server = Server::Start(options);
    ASSERT_THAT(server, IsOk());
    server_ = *std::move(server);
    channel_ = MakeChannel(absl::StrCat("127.0.0.1:", server_->port()));
  }

  void Create(const std::string& id, int cp_size, int64_t max_message_bytes) {
    v1::CreateSessionRequest request;
    request.set_session_id(id);
    request.mutable_session()->mutable_topology()->set_cp_size(cp_size);
    request.mutable_session()->mutable_limits()->set_max_message_bytes(
        max_message_bytes);
    ASSERT_THAT(CreateSession(channel_, request), IsOk());
  }

  // The first receipt behind a batch.
  v1::BatchReceipt PutAndWait(const PackedBatch& batch) {
    absl::Notification came;
    v1::BatchReceipt receipt;
    auto feeder = Feeder::Open(channel_, {.session = "sessions/refusal",
                                          .on_receipt = [&](const auto& r) {
                                            receipt = r;
                                            came.Notify();
                                          }});
    EXPECT_THAT(feeder, IsOk());
    EXPECT_THAT((*feeder)->Put(batch, {}), IsOk());
    EXPECT_TRUE(came.WaitForNotificationWithTimeout(absl::Seconds(20)));
    return receipt;
  }

  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

class RefusalTest : public ServerTest,
                    public ::testing::WithParamInterface<Refusal> {};

TEST_P(RefusalTest, NamesWhatIsWrongAndTakesTheNextBatch) {
  Create("refusal", 2, 0);
  PackedBatch wrong = GoodBatch();
  GetParam().spoil(wrong);
  const v1::BatchReceipt refused = PutAndWait(wrong);
  EXPECT_EQ(refused.outcome(), v1::BatchReceipt::OUTCOME_REJECTED);
  const absl::Status why = StatusFromProto(refused.status());
  EXPECT_THAT(why,
              AllOf(StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("")),
                    HasReason(GetParam().reason)));
  for (const std::string& part : GetParam().parts) {
    EXPECT_THAT(std::string(why.message()), HasSubstr(part));
  }
  const v1::BatchReceipt accepted = PutAndWait(GoodBatch());
  EXPECT_EQ(accepted.outcome(), v1::BatchReceipt::OUTCOME_ACCEPTED);
  EXPECT_EQ(accepted.sequence(), 0);
  EXPECT_EQ(accepted.step(), 0);
}

// A loader that ends right behind its last batch learns that it was refused.
TEST_P(RefusalTest, FinishTellsWhy) {
  Create("refusal", 2, 0);
  PackedBatch wrong = GoodBatch();
  GetParam().spoil(wrong);
  auto feeder = Feeder::Open(channel_, {.session = "sessions/refusal"});
  ASSERT_THAT(feeder, IsOk());
  ASSERT_THAT((*feeder)->Put(wrong, {}), IsOk());
  EXPECT_THAT(
      (*feeder)->Finish(),
      AllOf(StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("batch 0")),
            HasReason(GetParam().reason)));
}

INSTANTIATE_TEST_SUITE_P(All, RefusalTest, ::testing::ValuesIn(Refusals()),
                         [](const auto& info) { return info.param.name; });

using LimitTest = ServerTest;

TEST_F(LimitTest, TwelveMebibytesPassWithDefaultSettings) {
  Create("refusal", 2, 0);
  PackedBatch batch;
  constexpr int64_t kWidth = 131072;
  batch.input_ids =
      Tensor::FromVector<int64_t>({4, kWidth}, Counting(4 * kWidth));
  batch.labels = batch.input_ids;
  batch.position_ids = batch.input_ids;
  EXPECT_EQ(PutAndWait(batch).outcome(), v1::BatchReceipt::OUTCOME_ACCEPTED);
  int64_t tokens = 0;
  for (int rank = 0; rank < 2; ++rank) {
    auto reader = ShardReader::Attach(
        channel_, {.session = "sessions/refusal", .cp_rank = rank});
    ASSERT_THAT(reader, IsOk());
    auto step = (*reader)->Next();
    ASSERT_THAT(step, IsOk());
    tokens += (*step)->shard.chunks[0].num_tokens;
  }
  EXPECT_EQ(tokens, 4 * kWidth);
}

TEST_F(LimitTest, ChunkAboveTheLimitNamesBothSizesAndTheSetting) {
  Create("refusal", 2, 1 << 20);
  PackedBatch batch;
  batch.input_ids =
      Tensor::FromVector<int64_t>({1, 1 << 18}, Counting(1 << 18));
  batch.labels = batch.input_ids;
  const EncodedBatch encoded = EncodeBatch(batch, "");
  ClientStream stream(channel_, "/cpfeed.v1.IngestService/PutBatches");
  v1::PutBatchesRequest open;
  open.mutable_open()->set_session("sessions/refusal");
  ASSERT_TRUE(stream.Write(EncodeMessage(open, Buffer())));
  v1::PutBatchesRequest header;
  *header.mutable_batch() = encoded.header;
  ASSERT_TRUE(stream.Write(EncodeMessage(header, Buffer())));
  v1::PutBatchesRequest chunk;
  chunk.mutable_chunk()->set_offset(0);
  stream.Write(EncodeMessage(chunk, encoded.payload.Slice(0, 2 << 20)));
  Buffer message;
  while (stream.Read(message)) {
  }
  EXPECT_THAT(stream.Finish(),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("2097152"), HasSubstr("1048576"),
                             HasSubstr("max_message_bytes"))));
}

TEST_F(LimitTest, MoreThanTwoGibibytesAreRefusedBeforeTheyCome) {
  Create("refusal", 2, 0);
  ClientStream stream(channel_, "/cpfeed.v1.IngestService/PutBatches");
  v1::PutBatchesRequest open;
  open.mutable_open()->set_session("sessions/refusal");
  ASSERT_TRUE(stream.Write(EncodeMessage(open, Buffer())));
  v1::PutBatchesRequest header;
  v1::TensorSpec& spec = *header.mutable_batch()->add_tensors();
  spec.set_name("input_ids");
  spec.set_dtype(v1::DTYPE_INT64);
  spec.add_shape(1);
  spec.add_shape(275'000'000);
  spec.set_checksum(1);
  ASSERT_TRUE(stream.Write(EncodeMessage(header, Buffer())));
  Buffer message;
  v1::PutBatchesResponse response;
  while (!response.has_receipt()) {
    ASSERT_TRUE(stream.Read(message));
    ASSERT_THAT(DecodeMessage(message, response), IsOk());
  }
  EXPECT_THAT(
      StatusFromProto(response.receipt().status()),
      AllOf(StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("2 GiB")),
            HasReason(kBatchTooLarge)));
}

TEST_F(LimitTest, GroupsOfOneJobGetTheirOwnBatches) {
  // World rank w: data-parallel group w / cp_size, cp_rank w % cp_size.
  for (const int64_t dp : {0, 1}) {
    Create(absl::StrCat("job-dp", dp), 2, 0);
    auto feeder = Feeder::Open(
        channel_, {.session = absl::StrCat("sessions/job-dp", dp)});
    ASSERT_THAT(feeder, IsOk());
    std::vector<int64_t> ids = Counting(8);
    for (int64_t& id : ids) id += 100 * dp;
    PackedBatch batch;
    batch.input_ids = Tensor::FromVector<int64_t>({1, 8}, std::move(ids));
    batch.labels = batch.input_ids;
    ASSERT_THAT((*feeder)->Put(batch, {}), IsOk());
    ASSERT_THAT((*feeder)->Flush(), IsOk());
  }
  std::vector<std::vector<int64_t>> tokens;
  for (int world_rank = 0; world_rank < 4; ++world_rank) {
    auto reader = ShardReader::Attach(
        channel_, {.session = absl::StrCat("sessions/job-dp", world_rank / 2),
                   .cp_rank = world_rank % 2});
    ASSERT_THAT(reader, IsOk());
    auto step = (*reader)->Next();
    ASSERT_THAT(step, IsOk());
    tokens.push_back(*(*step)->shard.chunks[0].tensors[0].tensor.ToInt64());
  }
  EXPECT_THAT(tokens,
              ElementsAre(ElementsAre(0, 1, 6, 7), ElementsAre(2, 3, 4, 5),
                          ElementsAre(100, 101, 106, 107),
                          ElementsAre(102, 103, 104, 105)));
}

}  // namespace
}  // namespace cpfeed

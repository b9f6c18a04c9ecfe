#include "core/shard/cuda/rank_sharder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/plan/layout.h"
#include "core/plan/layout_spec.h"
#include "core/shard/cuda/device.h"
#include "core/shard/prepare_batch.h"
#include "core/shard/shard_executor.h"
#include "core/tensor/tensor.h"
#include "tests/core/shard/cuda/fake_device.h"
#include "tests/testing/packed_batches.h"
#include "tests/testing/random_batches.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kCpSize = 3;

std::string StringOf(const Buffer& buffer) {
  std::string bytes(static_cast<size_t>(buffer.size()), '\0');
  buffer.CopyTo(bytes.data());
  return bytes;
}

// Two chunks of padded rows with an embedding of 5 columns and two planes,
// which the rank has and, for comparison, the server too.
class RankSharderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::mt19937_64 random(3);
    batch_ = CountingBatch(4, 20);
    batch_.seq_lens = Ragged({{9, 11}, {20}, {1, 19}, {5, 15}});
    embedding_ = RandomTensor(DType::kBfloat16, {2, 4, 20, 5}, random);
    embedding_.bytes = embedding_.bytes.Contiguous();
    batch_.extras.push_back({"vision", embedding_, 2});
    auto prepared =
        PrepareBatch(batch_, {.num_chunks = 2, .auto_pad = true},
                     {.layout = Layout::kHeadTailPerSequence}, kCpSize);
    ASSERT_THAT(prepared, IsOk());
    prepared_ = *std::move(prepared);
    auto steps =
        MakeCpuShardExecutor()->Execute(prepared_.thd, prepared_.plans);
    ASSERT_THAT(steps, IsOk());
    steps_ = *std::move(steps);
    auto sharder = RankSharder::Create(device_);
    ASSERT_THAT(sharder, IsOk());
    sharder_ = *std::move(sharder);
    const auto stream = device_->CreateStream();
    ASSERT_THAT(stream, IsOk());
    stream_ = *stream;
  }

  void TearDown() override {
    sharder_.reset();
    device_->DestroyStream(stream_);
  }

  LocalTensor Vision(int chunk) const {
    return {.name = "vision",
            .dtype = DType::kBfloat16,
            .outer = {2},
            .inner = {5},
            .batch_tokens = 80,
            .chunk_begin = 40 * chunk,
            .data = embedding_.bytes.data()};
  }

  // The shard as the rank gets it: its chunk counts its tokens from 0.
  Shard Received(int rank, int chunk) const {
    Shard shard = steps_[rank].chunks[chunk];
    auto own = std::make_shared<ThdChunk>(*shard.chunk);
    own->source_begin = 0;
    shard.chunk = own;
    return shard;
  }

  std::string Expected(int rank, int chunk) const {
    return StringOf(steps_[rank].chunks[chunk].tensors.back().tensor.bytes);
  }

  PackedBatch batch_;
  Tensor embedding_;
  PreparedBatch prepared_;
  std::vector<StepShard> steps_;
  const std::shared_ptr<FakeDevice> device_ = std::make_shared<FakeDevice>();
  std::unique_ptr<RankSharder> sharder_;
  DeviceStream stream_;
};

TEST_F(RankSharderTest, RowsAreThoseThatTheServerWouldSend) {
  for (const bool on_host : {false, true}) {
    // More calls than may be in flight, none waited for before the last.
    std::vector<std::string> rooms;
    for (int rank = 0; rank < kCpSize; ++rank) {
      for (int chunk = 0; chunk < 2; ++chunk) {
        const Shard shard = Received(rank, chunk);
        rooms.emplace_back(LocalShardBytes(Vision(chunk), shard), '\0');
      }
    }
    size_t room = 0;
    for (int rank = 0; rank < kCpSize; ++rank) {
      for (int chunk = 0; chunk < 2; ++chunk) {
        LocalTensor vision = Vision(chunk);
        vision.on_host = on_host;
        ASSERT_THAT(
            sharder_->ShardByPlan(Received(rank, chunk), vision,
                                  {rooms[room++].data(), on_host}, stream_),
            IsOk());
      }
    }
    ASSERT_THAT(device_->Synchronize(stream_), IsOk());
    room = 0;
    for (int rank = 0; rank < kCpSize; ++rank) {
      for (int chunk = 0; chunk < 2; ++chunk) {
        EXPECT_EQ(rooms[room++], Expected(rank, chunk));
      }
    }
  }
}

TEST_F(RankSharderTest, NothingRunsBeforeTheCallersStreamDoes) {
  std::string room(LocalShardBytes(Vision(0), Received(0, 0)), 'x');
  const std::string before = room;
  ASSERT_THAT(sharder_->ShardByPlan(Received(0, 0), Vision(0),
                                    {room.data(), false}, stream_),
              IsOk());
  EXPECT_EQ(room, before);
  ASSERT_THAT(device_->Synchronize(stream_), IsOk());
  EXPECT_EQ(room, Expected(0, 0));
}

TEST_F(RankSharderTest, ChunkMustLieInsideTheBatch) {
  LocalTensor vision = Vision(1);
  vision.chunk_begin = 41;
  const absl::Status status =
      sharder_->ShardByPlan(Received(0, 1), vision, {nullptr, false}, stream_);
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("vision has 80 tokens"),
                             HasSubstr("the chunk has 40 from 41 on"))));
  EXPECT_THAT(status, HasReason(kShapeMismatch));
}

TEST_F(RankSharderTest, FailedCallLeavesTheSharderUsable) {
  std::string room(LocalShardBytes(Vision(0), Received(0, 0)), '\0');
  int failures = 0;
  for (int call = 0; call < 20; ++call) {
    device_->FailCall(call, /*lost=*/false);
    const absl::Status status = sharder_->ShardByPlan(
        Received(0, 0), Vision(0), {room.data(), false}, stream_);
    if (status.ok()) break;
    EXPECT_THAT(status, HasReason(kDeviceFailed));
    ++failures;
  }
  EXPECT_GE(failures, 3);
  device_->FailCall(-1, /*lost=*/false);
  ASSERT_THAT(sharder_->ShardByPlan(Received(0, 0), Vision(0),
                                    {room.data(), false}, stream_),
              IsOk());
  ASSERT_THAT(device_->Synchronize(stream_), IsOk());
  EXPECT_EQ(room, Expected(0, 0));
}

}  // namespace
}  // namespace cpfeed::testing

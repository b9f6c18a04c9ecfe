// The executor for GPUs on a device in host memory: the same kernel source,
// compiled for the host.

#include "core/shard/cuda/cuda_shard_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/shard/prepare_batch.h"
#include "core/shard/shard_executor.h"
#include "tests/core/shard/cuda/fake_device.h"
#include "tests/core/shard/shard_cases.h"
#include "tests/testing/packed_batches.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::SizeIs;

std::unique_ptr<CudaShardExecutor> MakeExecutor(
    const std::shared_ptr<FakeDevice>& device,
    const CudaExecutorOptions& options = {}) {
  auto executor = CudaShardExecutor::Create(device, options);
  EXPECT_THAT(executor, IsOk());
  return *std::move(executor);
}

std::vector<StepShard> CutOnCpu(const PreparedBatch& batch) {
  auto shards = MakeCpuShardExecutor()->Execute(batch.thd, batch.plans);
  EXPECT_THAT(shards, IsOk());
  return *std::move(shards);
}

class CudaShardExecutorTest : public ::testing::TestWithParam<ShardCase> {};

TEST_P(CudaShardExecutorTest, ShardsHaveTheBitsOfTheCpus) {
  const auto device = std::make_shared<FakeDevice>();
  const auto executor = MakeExecutor(device);
  std::mt19937_64 random(GetParam().cp_size);
  for (int round = 0; round < NumRounds(GetParam()); ++round) {
    SCOPED_TRACE(::testing::Message() << "round " << round);
    const auto batch = PrepareRandom(GetParam(), random);
    ASSERT_THAT(batch, IsOk());
    const auto shards = executor->ExecuteOnDevice(batch->thd, batch->plans);
    ASSERT_THAT(shards, IsOk());
    ExpectSameShards(*shards, CutOnCpu(*batch));
    if (HasFailure()) return;
  }
  EXPECT_EQ(device->launches(), NumRounds(GetParam()));  // One a batch.
}

INSTANTIATE_TEST_SUITE_P(All, CudaShardExecutorTest,
                         ::testing::ValuesIn(AllShardCases()),
                         [](const auto& info) {
                           return ShardCaseName(info.param);
                         });

PreparedBatch SmallBatch() {
  auto batch = PrepareBatch(CountingBatch(2, 16), {},
                            {.layout = Layout::kHeadTailPerRow}, 2);
  EXPECT_THAT(batch, IsOk());
  return *std::move(batch);
}

TEST(CudaExecutorCountsTest, BytesAndTimeAreCounted) {
  const auto device = std::make_shared<FakeDevice>();
  const auto executor = MakeExecutor(device);
  const PreparedBatch batch = SmallBatch();
  ASSERT_THAT(executor->Execute(batch.thd, batch.plans), IsOk());
  ASSERT_THAT(executor->Execute(batch.thd, batch.plans), IsOk());
  const DeviceCounts counts = executor->counts();
  EXPECT_EQ(counts.batches, 2);
  // Two tensors of 2 * 16 int64 go there, and the descriptors.
  EXPECT_GT(counts.to_device_bytes, 2 * 2 * 256);
  // Each rank's 16 rows of three int64 and a bool, each aligned to 256.
  EXPECT_EQ(counts.from_device_bytes, 2 * 2 * 4 * 256);
  EXPECT_EQ(counts.kernel_time, absl::Microseconds(6));
  EXPECT_THAT(counts.fallbacks, SizeIs(0));
}

TEST(CudaExecutorErrorTest, PlansMustBeThoseOfTheChunks) {
  const auto executor = MakeExecutor(std::make_shared<FakeDevice>());
  PreparedBatch batch = SmallBatch();
  batch.plans.clear();
  EXPECT_THAT(executor->Execute(batch.thd, batch.plans),
              HasReason(kShapeMismatch));
  EXPECT_THAT(executor->counts().fallbacks, SizeIs(0));
}

// Whichever call fails, the batch is cut on the CPU, and the next one is cut
// on the device again.
TEST(CudaExecutorErrorTest, FailedCallIsMadeUpForByTheCpu) {
  const PreparedBatch batch = SmallBatch();
  const std::vector<StepShard> expected = CutOnCpu(batch);
  int failures = 0;
  for (int call = 0; call < 40; ++call) {
    SCOPED_TRACE(::testing::Message() << "call " << call);
    bool told = false;
    const auto device = std::make_shared<FakeDevice>();
    const auto executor = MakeExecutor(
        device, {.on_lost = [&](const absl::Status&) { told = true; }});
    device->FailCall(call, /*lost=*/false);
    const auto shards = executor->Execute(batch.thd, batch.plans);
    ASSERT_THAT(shards, IsOk());
    ExpectSameShards(*shards, expected);
    const DeviceCounts counts = executor->counts();
    if (counts.batches == 1) break;  // The failing call was not reached.
    ++failures;
    EXPECT_THAT(counts.fallbacks, ElementsAre(Pair(kDeviceFailed, 1)));
    const auto next = executor->ExecuteOnDevice(batch.thd, batch.plans);
    ASSERT_THAT(next, IsOk());
    ExpectSameShards(*next, expected);
    EXPECT_FALSE(told);
  }
  // Four allocations, three copies, two records, launch, wait, elapsed.
  EXPECT_EQ(failures, 12);
}

// Whichever call loses the device, nothing is submitted to it any more, the
// owner is told once, and batches go on on the CPU.
TEST(CudaExecutorErrorTest, LostDeviceIsLeftAlone) {
  const PreparedBatch batch = SmallBatch();
  const std::vector<StepShard> expected = CutOnCpu(batch);
  int losses = 0;
  for (int call = 0; call < 40; ++call) {
    SCOPED_TRACE(::testing::Message() << "call " << call);
    std::vector<std::string> told;
    const auto device = std::make_shared<FakeDevice>();
    const auto executor =
        MakeExecutor(device, {.on_lost = [&](const absl::Status& why) {
                       told.push_back(ReasonOf(why));
                     }});
    device->FailCall(call, /*lost=*/true);
    const auto shards = executor->Execute(batch.thd, batch.plans);
    ASSERT_THAT(shards, IsOk());
    ExpectSameShards(*shards, expected);
    if (executor->counts().batches == 1) break;
    ++losses;
    EXPECT_THAT(told, ElementsAre(kDeviceLost));
    const int calls = device->calls_after_loss();
    EXPECT_LE(calls, 1);  // The wait for what was queued before.
    for (int i = 0; i < 3; ++i) {
      const auto next = executor->Execute(batch.thd, batch.plans);
      ASSERT_THAT(next, IsOk());
      ExpectSameShards(*next, expected);
    }
    EXPECT_EQ(device->calls_after_loss(), calls);
    EXPECT_THAT(told, SizeIs(1));
    EXPECT_THAT(executor->counts().fallbacks,
                ElementsAre(Pair(kDeviceLost, 4)));
  }
  EXPECT_EQ(losses, 12);
}

// Shards hold pinned memory until they are gone; without any left the CPU cuts.
TEST(CudaExecutorMemoryTest, HeldShardsKeepPinnedMemoryWithinTheBudget) {
  const auto device = std::make_shared<FakeDevice>();
  const auto executor = MakeExecutor(device, {.pinned_bytes = 256 << 10});
  const PreparedBatch batch = SmallBatch();
  const std::vector<StepShard> expected = CutOnCpu(batch);
  std::vector<std::vector<StepShard>> held;
  for (int i = 0; i < 6; ++i) {
    auto shards = executor->Execute(batch.thd, batch.plans);
    ASSERT_THAT(shards, IsOk());
    ExpectSameShards(*shards, expected);
    held.push_back(*std::move(shards));
  }
  // Blocks of 64 KiB: three results and one batch on its way.
  EXPECT_EQ(device->num_pinned(), 4);
  EXPECT_EQ(executor->counts().batches, 3);
  EXPECT_THAT(executor->counts().fallbacks,
              ElementsAre(Pair(kMemoryPressure, 3)));
  held.clear();
  ASSERT_THAT(executor->Execute(batch.thd, batch.plans), IsOk());
  EXPECT_EQ(executor->counts().batches, 4);
}

TEST(CudaExecutorMemoryTest, ShardsOutliveTheExecutor) {
  const auto device = std::make_shared<FakeDevice>();
  const PreparedBatch batch = SmallBatch();
  auto executor = MakeExecutor(device);
  const auto shards = executor->Execute(batch.thd, batch.plans);
  executor.reset();
  ASSERT_THAT(shards, IsOk());
  ExpectSameShards(*shards, CutOnCpu(batch));
  EXPECT_EQ(device->num_allocated(), 0);
}

TEST(CudaExecutorThreadsTest, BatchesOfManyThreadsTakeTurnsOnTwoStreams) {
  const auto device = std::make_shared<FakeDevice>();
  const auto executor = MakeExecutor(device);
  const PreparedBatch batch = SmallBatch();
  const std::vector<StepShard> expected = CutOnCpu(batch);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        const auto shards = executor->ExecuteOnDevice(batch.thd, batch.plans);
        ASSERT_THAT(shards, IsOk());
        ExpectSameShards(*shards, expected);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(device->streams_used(), 2);
  EXPECT_EQ(executor->counts().batches, 80);
}

}  // namespace
}  // namespace cpfeed::testing

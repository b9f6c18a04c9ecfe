// Shards cut on a GPU have the bits of those cut on the CPU.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/plan/layout.h"
#include "core/shard/cuda/cuda_device.h"
#include "core/shard/cuda/cuda_shard_executor.h"
#include "core/shard/cuda/rank_sharder.h"
#include "core/shard/prepare_batch.h"
#include "core/shard/shard_executor.h"
#include "tests/core/shard/shard_cases.h"
#include "tests/testing/packed_batches.h"
#include "tests/testing/random_batches.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed::testing {
namespace {

using ::testing::SizeIs;

std::shared_ptr<Device> Gpu() {
  static const auto* const gpu =
      new absl::StatusOr<std::shared_ptr<Device>>(OpenCudaDevice(0));
  EXPECT_THAT(*gpu, IsOk());
  return gpu->value_or(nullptr);
}

std::unique_ptr<CudaShardExecutor> MakeExecutor() {
  auto executor = CudaShardExecutor::Create(Gpu(), {});
  EXPECT_THAT(executor, IsOk());
  return *std::move(executor);
}

void ExpectBitsOfCpu(const CudaShardExecutor& executor,
                     const PreparedBatch& batch) {
  const auto cpu = MakeCpuShardExecutor()->Execute(batch.thd, batch.plans);
  const auto gpu = executor.ExecuteOnDevice(batch.thd, batch.plans);
  ASSERT_THAT(cpu, IsOk());
  ASSERT_THAT(gpu, IsOk());
  ExpectSameShards(*gpu, *cpu);
}

class GpuShardTest : public ::testing::TestWithParam<ShardCase> {
 protected:
  void SetUp() override { ASSERT_NE(Gpu(), nullptr); }
};

TEST_P(GpuShardTest, ShardsHaveTheBitsOfTheCpus) {
  const auto executor = MakeExecutor();
  std::mt19937_64 random(GetParam().cp_size);
  for (int round = 0; round < NumRounds(GetParam()); ++round) {
    const auto batch = PrepareRandom(GetParam(), random);
    ASSERT_THAT(batch, IsOk());
    ExpectBitsOfCpu(*executor, *batch);
    if (HasFailure()) return;
  }
  EXPECT_THAT(executor->counts().fallbacks, SizeIs(0));
}

INSTANTIATE_TEST_SUITE_P(All, GpuShardTest,
                         ::testing::ValuesIn(AllShardCases()),
                         [](const auto& info) {
                           return ShardCaseName(info.param);
                         });

// 16 MiB of embeddings, odd and even rows, with ids beside them.
TEST(GpuShardWideTest, EmbeddingsHaveTheBitsOfTheCpus) {
  ASSERT_NE(Gpu(), nullptr);
  const auto executor = MakeExecutor();
  std::mt19937_64 random(9);
  for (const int64_t columns : {512, 511, 1}) {
    PackedBatch batch = CountingBatch(2, 8192);
    batch.input_ids =
        RandomTensor(DType::kBfloat16, {2, 8192, columns}, random);
    for (const Layout layout :
         {Layout::kHeadTailPerRow, Layout::kStriped, Layout::kBalanced}) {
      const auto prepared = PrepareBatch(batch, {}, {.layout = layout}, 8);
      ASSERT_THAT(prepared, IsOk());
      ExpectBitsOfCpu(*executor, *prepared);
    }
  }
}

TEST(GpuShardThreadsTest, ManyThreadsCutAtOnce) {
  ASSERT_NE(Gpu(), nullptr);
  const auto executor = MakeExecutor();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const ShardCase shard_case = {Layout::kHeadTailPerSequence, t + 2};
      std::mt19937_64 random(t);
      for (int i = 0; i < 25; ++i) {
        const auto batch = PrepareRandom(shard_case, random);
        ASSERT_THAT(batch, IsOk());
        ExpectBitsOfCpu(*executor, *batch);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// A tensor that is on the device is cut there: bits of what the server sends.
TEST(GpuRankSharderTest, OwnTensorIsCutByThePlan) {
  const auto gpu = Gpu();
  ASSERT_NE(gpu, nullptr);
  std::mt19937_64 random(2);
  PackedBatch batch = CountingBatch(2, 4096);
  const Tensor vision = RandomTensor(DType::kBfloat16, {2, 4096, 96}, random);
  batch.extras.push_back({"vision", vision});
  const auto prepared =
      PrepareBatch(batch, {}, {.layout = Layout::kHeadTailPerRow}, 4);
  ASSERT_THAT(prepared, IsOk());
  const auto steps =
      MakeCpuShardExecutor()->Execute(prepared->thd, prepared->plans);
  ASSERT_THAT(steps, IsOk());
  const auto stream = gpu->CreateStream();
  ASSERT_THAT(stream, IsOk());
  const auto sharder = RankSharder::Create(gpu);
  ASSERT_THAT(sharder, IsOk());
  const Buffer bytes = vision.bytes.Contiguous();
  const auto source = gpu->Allocate(bytes.size());
  const auto room = gpu->Allocate(bytes.size() / 4);
  ASSERT_THAT(source, IsOk());
  ASSERT_THAT(room, IsOk());
  ASSERT_THAT(gpu->Copy(*source, bytes.data(), bytes.size(), *stream), IsOk());
  for (const StepShard& step : *steps) {
    const Shard& shard = step.chunks[0];
    const LocalTensor local = {.name = "vision",
                               .dtype = DType::kBfloat16,
                               .inner = {96},
                               .batch_tokens = 8192,
                               .data = *source};
    ASSERT_THAT((*sharder)->ShardByPlan(shard, local, {*room, false}, *stream),
                IsOk());
    std::string rows(static_cast<size_t>(LocalShardBytes(local, shard)), '\0');
    ASSERT_THAT(gpu->Copy(rows.data(), *room, rows.size(), *stream), IsOk());
    ASSERT_THAT(gpu->Synchronize(*stream), IsOk());
    std::string expected(rows.size(), '\0');
    shard.tensors.back().tensor.bytes.CopyTo(expected.data());
    EXPECT_TRUE(rows == expected) << "rank " << shard.cp_rank;
  }
  gpu->Free(*source);
  gpu->Free(*room);
  gpu->DestroyStream(*stream);
}

}  // namespace
}  // namespace cpfeed::testing

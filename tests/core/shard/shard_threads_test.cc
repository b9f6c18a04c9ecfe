// Threads that cut one batch at once and let go of its bytes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/batch/packed_batch.h"
#include "core/plan/layout_spec.h"
#include "core/shard/prepare_batch.h"
#include "core/shard/shard.h"
#include "core/shard/shard_executor.h"
#include "tests/testing/packed_batches.h"
#include "tests/testing/random_batches.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::CountingBatch;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::RandomTensor;

std::string StringOf(const Buffer& buffer) {
  std::string bytes(static_cast<size_t>(buffer.size()), '\0');
  buffer.CopyTo(bytes.data());
  return bytes;
}

// Tensors long enough for slices and short enough for copies.
PreparedBatch Prepared() {
  std::mt19937_64 random(1);
  PackedBatch batch = CountingBatch(1, 1024);
  batch.input_ids = RandomTensor(DType::kFloat32, {1, 1024, 32}, random);
  const auto prepared =
      PrepareBatch(batch, {}, {.layout = Layout::kHeadTailPerSequence}, 2);
  EXPECT_THAT(prepared, IsOk());
  return *prepared;
}

TEST(ShardThreadsTest, OneExecutorCutsForManyThreads) {
  const std::unique_ptr<ShardExecutor> executor = MakeCpuShardExecutor();
  PreparedBatch prepared = Prepared();
  const auto expected = executor->Execute(prepared.thd, prepared.plans);
  ASSERT_THAT(expected, IsOk());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    // Each thread has its own references; the last to go frees the bytes.
    threads.emplace_back([&executor, &expected, batch = prepared] {
      for (int round = 0; round < 20; ++round) {
        const auto steps = executor->Execute(batch.thd, batch.plans);
        ASSERT_THAT(steps, IsOk());
        for (size_t rank = 0; rank < steps->size(); ++rank) {
          const Shard& shard = (*steps)[rank].chunks[0];
          const Shard& same = (*expected)[rank].chunks[0];
          for (size_t t = 0; t < shard.tensors.size(); ++t) {
            ASSERT_EQ(StringOf(shard.tensors[t].tensor.bytes),
                      StringOf(same.tensors[t].tensor.bytes));
          }
        }
      }
    });
  }
  prepared = PreparedBatch();
  for (std::thread& thread : threads) thread.join();
}

TEST(ShardThreadsTest, SlicesGoToThreadsThatFreeThemInAnyOrder) {
  auto bytes = std::make_shared<std::string>(1 << 20, 'x');
  const std::weak_ptr<std::string> alive = bytes;
  Buffer whole = Buffer::Wrap(bytes, bytes->data(), 1 << 20);
  bytes.reset();
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([slice = whole.Slice(i << 17, 1 << 17)]() mutable {
      EXPECT_EQ(slice.Checksum(), slice.Contiguous(64).Checksum());
      slice = Buffer();
    });
  }
  whole = Buffer();
  for (std::thread& thread : threads) thread.join();
  threads.clear();
  EXPECT_TRUE(alive.expired());
}

}  // namespace
}  // namespace cpfeed

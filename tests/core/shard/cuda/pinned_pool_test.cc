#include "core/shard/cuda/pinned_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "core/base/error.h"
#include "core/shard/cuda/device.h"
#include "tests/core/shard/cuda/fake_device.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kBlock = 64 << 10;

TEST(PinnedPoolTest, BlocksAreUsedAgain) {
  const auto device = std::make_shared<FakeDevice>();
  const auto pool = PinnedPool::Create(device, 10 * kBlock);
  const void* first = pool->Take(1)->get();
  EXPECT_EQ(pool->Take(kBlock)->get(), first);
  EXPECT_EQ(device->num_pinned(), 1);
  EXPECT_EQ(pool->allocated_bytes(), kBlock);
}

TEST(PinnedPoolTest, SizesArePowersOfTwo) {
  const auto pool =
      PinnedPool::Create(std::make_shared<FakeDevice>(), 10 * kBlock);
  ASSERT_THAT(pool->Take(2 * kBlock + 1), IsOk());
  EXPECT_EQ(pool->allocated_bytes(), 4 * kBlock);
}

TEST(PinnedPoolTest, FreeBlocksOfOtherSizesMakeRoom) {
  const auto device = std::make_shared<FakeDevice>();
  const auto pool = PinnedPool::Create(device, 4 * kBlock);
  {
    const auto a = pool->Take(kBlock);
    const auto b = pool->Take(kBlock);
    ASSERT_THAT(b, IsOk());
  }
  const auto large = pool->Take(4 * kBlock);
  ASSERT_THAT(large, IsOk());
  EXPECT_EQ(pool->allocated_bytes(), 4 * kBlock);
  EXPECT_EQ(device->num_pinned(), 1);
}

TEST(PinnedPoolTest, BlocksInUseKeepTheBudget) {
  const auto pool =
      PinnedPool::Create(std::make_shared<FakeDevice>(), 3 * kBlock);
  const auto held = pool->Take(2 * kBlock);
  ASSERT_THAT(held, IsOk());
  const auto refused = pool->Take(2 * kBlock);
  EXPECT_THAT(refused,
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("in use is 131072 bytes"),
                             HasSubstr("131072 more"), HasSubstr("196608"))));
  EXPECT_THAT(refused, HasReason(kMemoryPressure));
  EXPECT_THAT(pool->Take(kBlock), IsOk());
}

TEST(PinnedPoolTest, FailedAllocationTakesNothingFromTheBudget) {
  const auto device = std::make_shared<FakeDevice>();
  const auto pool = PinnedPool::Create(device, kBlock);
  device->FailCall(0, /*lost=*/false);
  EXPECT_THAT(pool->Take(1), HasReason(kDeviceFailed));
  EXPECT_EQ(pool->allocated_bytes(), 0);
  EXPECT_THAT(pool->Take(1), IsOk());
}

TEST(PinnedPoolTest, BlocksMayOutliveTheOwnersPointer) {
  const auto device = std::make_shared<FakeDevice>();
  auto pool = PinnedPool::Create(device, kBlock);
  auto block = pool->Take(1);
  pool.reset();
  EXPECT_EQ(device->num_pinned(), 1);
  *block = nullptr;
  EXPECT_EQ(device->num_pinned(), 0);
}

}  // namespace
}  // namespace cpfeed::testing

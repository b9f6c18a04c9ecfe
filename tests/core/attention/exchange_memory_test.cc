// How much memory of tensors a rank needs at most, counted at the allocator.

#include <ATen/Parallel.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/attention/cp_attention.h"
#include "core/attention/make_kv_exchange.h"
#include "core/comm/loopback_communicator.h"
#include "core/plan/shard_plan.h"
#include "tests/core/plan/packs.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed::testing {
namespace {

// Bytes of the tensors that one thread made.
struct Account {
  std::atomic<int64_t> live = 0;
  std::atomic<int64_t> most = 0;
};

// Where this thread's tensors are counted; null: nowhere.
thread_local Account* thread_account = nullptr;

// LibTorch's own allocator with a count.
class CountingAllocator final : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator* base) : base_(base) {}

  c10::DataPtr allocate(size_t bytes) override {
    auto block = std::make_unique<Block>(Block{
        base_->allocate(bytes), static_cast<int64_t>(bytes), thread_account});
    if (block->account != nullptr) {
      const int64_t live = block->account->live += block->bytes;
      block->account->most = std::max<int64_t>(block->account->most, live);
    }
    void* const data = block->data.get();
    const c10::Device device = block->data.device();
    return {data, block.release(), &Free, device};
  }

  void copy_data(void* to, const void* from, size_t bytes) const override {
    base_->copy_data(to, from, bytes);
  }

 private:
  struct Block {
    c10::DataPtr data;
    int64_t bytes;
    Account* account;
  };

  static void Free(void* context) {
    const std::unique_ptr<Block> block(static_cast<Block*>(context));
    if (block->account != nullptr) block->account->live -= block->bytes;
  }

  c10::Allocator* const base_;
};

constexpr int64_t kRows = 128;  // Of every rank.

// What a rank needs at most beside its inputs, forward and backward, where
// `cp_size` ranks of kRows rows attend to one sequence together.
int64_t MostBytes(const std::string& exchange_name, int cp_size) {
  const auto exchange = MakeKvExchange(exchange_name);
  const auto plan =
      PlanShards(OneRow({kRows * cp_size}),
                 {.layout = Layout::kHeadTailPerSequence}, cp_size);
  EXPECT_THAT(exchange, IsOk());
  EXPECT_THAT(plan, IsOk());
  auto ends = MakeLoopbackGroup(cp_size);
  std::vector<Account> accounts(cp_size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < cp_size; ++rank) {
    threads.emplace_back([&, rank] {
      at::set_num_threads(1);
      const AttentionInputs inputs = {.q = at::randn({kRows, 4, 16}),
                                      .k = at::randn({kRows, 2, 16}),
                                      .v = at::randn({kRows, 2, 16}),
                                      .mask = AttentionMask::Causal(),
                                      .scale = 0.25};
      const at::Tensor dout = at::ones({kRows, 4, 16});
      thread_account = &accounts[rank];
      {
        const auto output =
            ContextParallelAttention(**exchange, inputs, *plan, *ends[rank]);
        ASSERT_THAT(output, IsOk());
        const auto grads = ContextParallelAttentionBackward(
            **exchange, inputs, *output, dout, *plan, *ends[rank]);
        ASSERT_THAT(grads, IsOk());
      }
      thread_account = nullptr;
    });
  }
  for (std::thread& thread : threads) thread.join();
  int64_t most = 0;
  for (const Account& account : accounts) {
    EXPECT_GT(account.most, 0);
    most = std::max<int64_t>(most, account.most);
  }
  return most;
}

class ExchangeMemoryTest : public ::testing::Test {
 protected:
  // For the life of the process: tensors may outlive a test.
  static void SetUpTestSuite() {
    static auto* const counting = new CountingAllocator(c10::GetCPUAllocator());
    c10::SetCPUAllocator(counting, /*priority=*/1);
  }
};

TEST_F(ExchangeMemoryTest, RingNeedsNoMoreForMoreRanks) {
  const int64_t of_three = MostBytes("ring", 3);
  EXPECT_LE(MostBytes("ring", 6), of_three);
  EXPECT_LE(MostBytes("ring", 12), of_three);
}

// That the count can tell: all keys and values of the sequence lie at every
// rank there.
TEST_F(ExchangeMemoryTest, AllgatherNeedsTheKeysOfTheWholeSequence) {
  constexpr int64_t kKvBytes = kRows * 2 * (16 + 16) * 4;  // Of one rank.
  EXPECT_GE(MostBytes("allgather", 12),
            MostBytes("allgather", 3) + (12 - 3) * kKvBytes);
}

}  // namespace
}  // namespace cpfeed::testing

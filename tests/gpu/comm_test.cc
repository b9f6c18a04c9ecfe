// Groups that exchange a GPU's memory: NCCL with one rank a GPU, and Gloo with
// several ranks on one.

#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/attention/tensor_bytes.h"
#include "core/base/error.h"
#include "core/comm/collectives.h"
#include "core/comm/gloo_communicator.h"
#include "core/comm/nccl_communicator.h"
#include "core/comm/rendezvous_store.h"
#include "core/comm/staged_communicator.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed::testing {
namespace {

std::shared_ptr<RendezvousStore> OpenStore(int port) {
  auto store = RendezvousStore::Open(
      {.port = port, .host = port == 0, .timeout = absl::Seconds(60)});
  EXPECT_THAT(store, IsOk());
  return *store;
}

int NumGpus() {
  const at::CUDAHooksInterface& cuda = at::detail::getCUDAHooks();
  return cuda.hasCUDA() ? static_cast<int>(cuda.deviceCount()) : 0;
}

using Join = std::function<absl::StatusOr<std::unique_ptr<Communicator>>(
    const std::shared_ptr<RendezvousStore>& store, int rank)>;

void RunRanks(int size, const Join& join,
              const std::function<void(Communicator&, at::Device)>& body,
              bool gpu_each) {
  const auto host = OpenStore(0);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.emplace_back([&, rank] {
      const auto group = join(rank == 0 ? host : OpenStore(host->port()), rank);
      ASSERT_THAT(group, IsOk());
      body(**group, at::Device(at::kCUDA, gpu_each ? rank : 0));
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

at::Tensor Numbers(std::vector<int64_t> sizes, double value,
                   at::Device device) {
  return at::full(sizes, value, at::TensorOptions(at::kFloat).device(device));
}

bool AllAre(const at::Tensor& tensor, double value) {
  return tensor.cpu().eq(value).all().item<bool>();
}

// Collectives on device memory, and agreements on host memory.
void Exercise(Communicator& group, at::Device device) {
  const int size = group.size();
  const int rank = group.rank();
  const at::Tensor own = Numbers({3, 5}, rank, device);
  const at::Tensor all = at::empty({size, 3, 5}, own.options());
  const std::vector<int64_t> sizes(size, static_cast<int64_t>(own.nbytes()));
  ASSERT_THAT(AllGather(group, BytesOf(own), sizes, MutableBytesOf(all)),
              IsOk());
  for (int peer = 0; peer < size; ++peer) {
    EXPECT_TRUE(AllAre(all[peer], peer));
  }
  // Blocks go round and come home.
  at::Tensor block = own.clone();
  for (int step = 0; step < size; ++step) {
    const at::Tensor next = at::empty_like(block);
    auto shift =
        StartRingShift(group, {BytesOf(block)}, {MutableBytesOf(next)});
    ASSERT_THAT(shift, IsOk());
    ASSERT_THAT((*shift)->Wait(), IsOk());
    block = next;
  }
  EXPECT_TRUE(AllAre(block, rank));
  std::vector<int64_t> host(size), received(size);
  for (int peer = 0; peer < size; ++peer) host[peer] = 100 * rank + peer;
  const std::vector<int64_t> eight(size, 8);
  ASSERT_THAT(
      AllToAll(
          group,
          {reinterpret_cast<const std::byte*>(host.data()), host.size() * 8},
          eight,
          {reinterpret_cast<std::byte*>(received.data()), received.size() * 8},
          eight),
      IsOk());
  for (int peer = 0; peer < size; ++peer) {
    EXPECT_EQ(received[peer], 100 * peer + rank);
  }
  // Nobody leaves before the others are done.
  EXPECT_THAT(Barrier(group), IsOk());
}

class GpuCommTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_GT(NumGpus(), 0) << "no CUDA device"; }
};

TEST_F(GpuCommTest, NcclJoinsOneRankAGpu) {
  const int size = NumGpus();
  RunRanks(
      size,
      [size](const auto& store, int rank) {
        return JoinNcclGroup(store, {.rank = rank,
                                     .size = size,
                                     .cuda_device = rank,
                                     .join_timeout = absl::Seconds(60)});
      },
      Exercise, /*gpu_each=*/true);
}

TEST_F(GpuCommTest, NcclAbortsAtTheTimeout) {
  if (NumGpus() < 2) GTEST_SKIP() << "needs two GPUs";
  RunRanks(
      2,
      [](const auto& store, int rank) {
        return JoinNcclGroup(store, {.rank = rank,
                                     .size = 2,
                                     .cuda_device = rank,
                                     .comm = {.timeout = absl::Seconds(3)},
                                     .join_timeout = absl::Seconds(60)});
      },
      [](Communicator& group, at::Device) {
        // Both wait for what neither sends.
        std::vector<std::byte> never(8);
        EXPECT_THAT(
            group.Exchange({}, {{1 - group.rank(), absl::MakeSpan(never)}}),
            ::testing::Not(IsOk()));
        EXPECT_THAT(Barrier(group), HasReason(kGroupFailed));
      },
      /*gpu_each=*/true);
}

TEST_F(GpuCommTest, GlooExchangesTensorsOfOneGpu) {
  constexpr int kSize = 4;
  RunRanks(
      kSize,
      [](const auto& store,
         int rank) -> absl::StatusOr<std::unique_ptr<Communicator>> {
        auto group = JoinGlooGroup(store, {.rank = rank,
                                           .size = kSize,
                                           .join_timeout = absl::Seconds(60),
                                           .host_name = "127.0.0.1"});
        if (!group.ok()) return group;
        return StageOnHost(*std::move(group), CudaDeviceMemory({}));
      },
      Exercise, /*gpu_each=*/false);
}

}  // namespace
}  // namespace cpfeed::testing

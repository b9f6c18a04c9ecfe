// Which buffers a context-parallel context takes, and what happens to them.

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "core/comm/loopback_communicator.h"
#include "core/context/context_parallel.h"
#include "core/context/cp_batch.h"
#include "core/context/sdpa.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed::testing {
namespace {

using ::testing::ElementsAre;

// Rank 0 of 2.
std::shared_ptr<Communicator> FirstOfTwo() {
  return std::move(MakeLoopbackGroup(2)[0]);
}

TEST(ContextBuffersTest, NoneAreLegal) {
  const auto factory = ContextParallelContext(FirstOfTwo(), {});
  ASSERT_THAT(factory, IsOk());
  const auto scope = (*factory)();
  ASSERT_THAT(scope, IsOk());
  EXPECT_TRUE(InCpSdpa());
}

// Positions [1, S] that stand for many rows share the memory of one: sharding
// them in place would write into it, and a buffer that stays sharded would
// leave it so.
TEST(ContextBuffersTest, AnExpandedBufferLeavesItsBaseAlone) {
  const at::Tensor base = at::arange(8, at::kLong).unsqueeze(0);
  for (const bool restore : {true, false}) {
    at::Tensor expanded = base.expand({3, 8});
    ContextParallelOptions options = {.buffers = {&expanded},
                                      .sequence_dims = {1}};
    if (!restore) options.no_restore = {&expanded};
    const auto factory = ContextParallelContext(FirstOfTwo(), options);
    ASSERT_THAT(factory, IsOk());
    {
      const auto scope = (*factory)();
      ASSERT_THAT(scope, IsOk());
      EXPECT_EQ(expanded.sizes().vec(), (std::vector<int64_t>{3, 4}));
      EXPECT_EQ(expanded[2][3].item<int64_t>(), 7);
      EXPECT_TRUE(at::equal(base, at::arange(8, at::kLong).unsqueeze(0)));
    }
    EXPECT_TRUE(at::equal(base, at::arange(8, at::kLong).unsqueeze(0)));
    EXPECT_EQ(expanded.size(1), restore ? 8 : 4);
  }
}

// A part of a larger tensor, likewise.
TEST(ContextBuffersTest, AViewLeavesTheRestOfItsMemoryAlone) {
  const at::Tensor base = at::arange(16, at::kLong).reshape({2, 8});
  at::Tensor view = base.narrow(0, 0, 1);
  const auto factory = ContextParallelContext(
      FirstOfTwo(), {.buffers = {&view}, .sequence_dims = {1}});
  ASSERT_THAT(factory, IsOk());
  {
    const auto scope = (*factory)();
    ASSERT_THAT(scope, IsOk());
    EXPECT_EQ(view.size(1), 4);
    EXPECT_TRUE(at::equal(base, at::arange(16, at::kLong).reshape({2, 8})));
  }
  EXPECT_EQ(view.size(1), 8);
}

// [n_rope, B, S] is cut along S, not along its rows.
TEST(ContextBuffersTest, ComponentsOfPositionsAreShardedAlongTheirTokens) {
  TensorBatch batch = {
      {"input_ids", at::zeros({1, 8}, at::kLong)},
      {"labels", at::zeros({1, 8}, at::kLong)},
      {"position_ids", at::arange(24, at::kLong).reshape({3, 1, 8}).clone()}};
  const auto factory = MakeCpBatchAndContext(FirstOfTwo(), batch);
  ASSERT_THAT(factory, IsOk());
  const auto scope = (*factory)();
  ASSERT_THAT(scope, IsOk());
  const at::Tensor& positions = batch["position_ids"];
  EXPECT_EQ(positions.sizes().vec(), (std::vector<int64_t>{3, 1, 4}));
  std::vector<int64_t> second;
  for (int64_t i = 0; i < 4; ++i) {
    second.push_back(positions[1][0][i].item<int64_t>());
  }
  EXPECT_THAT(second, ElementsAre(8, 9, 14, 15));
}

}  // namespace
}  // namespace cpfeed::testing

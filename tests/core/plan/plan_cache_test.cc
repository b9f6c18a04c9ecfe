#include "core/plan/plan_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "core/plan/layout_spec.h"
#include "core/plan/shard_plan.h"
#include "core/plan/visible_keys.h"
#include "tests/core/plan/packs.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::OneRow;
using ::cpfeed::testing::Rows;
using ::cpfeed::testing::StatusIs;

constexpr LayoutSpec kBalanced = {.layout = Layout::kBalanced};

TEST(PlanCacheTest, TheSameLengthsArePlannedOnce) {
  PlanCache cache;
  const auto first = cache.Plan(OneRow({8, 4}), kBalanced, 2);
  const auto second = cache.Plan(OneRow({8, 4}), kBalanced, 2);
  ASSERT_THAT(first, IsOk());
  ASSERT_THAT(second, IsOk());
  EXPECT_EQ(*first, *second);  // The very same object.
  EXPECT_EQ((*first)->digest, PlanShards(OneRow({8, 4}), kBalanced, 2)->digest);
  EXPECT_EQ(cache.counts().hits, 1);
  EXPECT_EQ(cache.counts().misses, 1);
  EXPECT_GT(cache.counts().bytes, 0);
}

TEST(PlanCacheTest, WhateverDiffersIsAnotherPlan) {
  PlanCache cache;
  LayoutSpec tile = kBalanced;
  tile.objective = Objective::kTile;
  LayoutSpec window = kBalanced;
  window.mask = VisibleKeys::Window(3);
  const auto plan = cache.Plan(OneRow({8, 4}), kBalanced, 2);
  ASSERT_THAT(plan, IsOk());
  EXPECT_NE(cache.Plan(OneRow({4, 8}), kBalanced, 2).value(), *plan);
  EXPECT_NE(cache.Plan(OneRow({8, 4}, {8, 8}), kBalanced, 2).value(), *plan);
  EXPECT_NE(cache.Plan(Rows({{8}, {4}}), kBalanced, 2).value(), *plan);
  EXPECT_NE(cache.Plan(OneRow({8, 4}), kBalanced, 3).value(), *plan);
  EXPECT_NE(cache.Plan(OneRow({8, 4}), tile, 2).value(), *plan);
  EXPECT_NE(cache.Plan(OneRow({8, 4}), window, 2).value(), *plan);
  EXPECT_EQ(cache.counts().hits, 0);
  EXPECT_EQ(cache.counts().misses, 7);
}

TEST(PlanCacheTest, TheLeastRecentlyUsedGoesFirst) {
  PlanCache probe;
  ASSERT_THAT(probe.Plan(OneRow({8, 4}), kBalanced, 2), IsOk());
  const int64_t one = probe.counts().bytes;
  PlanCache cache({.max_bytes = 2 * one + one / 2});
  ASSERT_THAT(cache.Plan(OneRow({8, 4}), kBalanced, 2), IsOk());
  ASSERT_THAT(cache.Plan(OneRow({8, 6}), kBalanced, 2), IsOk());
  ASSERT_THAT(cache.Plan(OneRow({8, 4}), kBalanced, 2), IsOk());
  ASSERT_THAT(cache.Plan(OneRow({8, 2}), kBalanced, 2), IsOk());
  EXPECT_LE(cache.counts().bytes, 2 * one + one / 2);
  ASSERT_THAT(cache.Plan(OneRow({8, 4}), kBalanced, 2), IsOk());
  EXPECT_EQ(cache.counts().hits, 2);
  ASSERT_THAT(cache.Plan(OneRow({8, 6}), kBalanced, 2), IsOk());
  EXPECT_EQ(cache.counts().hits, 2);
}

TEST(PlanCacheTest, KeepsNothingWithoutRoom) {
  PlanCache cache({.max_bytes = 0});
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(cache.Plan(OneRow({8, 4}), kBalanced, 2), IsOk());
  }
  EXPECT_EQ(cache.counts().hits, 0);
  EXPECT_EQ(cache.counts().bytes, 0);
}

TEST(PlanCacheTest, ErrorsAreNotKept) {
  PlanCache cache;
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(
        cache.Plan(OneRow({7}), {.layout = Layout::kHeadTailPerSequence}, 2),
        StatusIs(absl::StatusCode::kInvalidArgument, ::testing::_));
  }
  EXPECT_EQ(cache.counts().misses, 2);
  EXPECT_EQ(cache.counts().bytes, 0);
}

TEST(PlanCacheTest, ServesThreadsAtTheSameTime) {
  PlanCache cache;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&cache] {
      for (int64_t i = 0; i < 200; ++i) {
        const auto plan = cache.Plan(OneRow({8 + i % 10}), kBalanced, 2);
        ASSERT_THAT(plan, IsOk());
        EXPECT_EQ((*plan)->lengths.real[0], 8 + i % 10);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cache.counts().hits + cache.counts().misses, 800);
}

}  // namespace
}  // namespace cpfeed

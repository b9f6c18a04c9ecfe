#include "core/shard/prepare_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/batch/packed_batch.h"
#include "core/plan/layout.h"
#include "core/plan/layout_spec.h"
#include "core/plan/plan_cache.h"
#include "tests/testing/packed_batches.h"
#include "tests/testing/random_batches.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::CountingBatch;
using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::Ragged;
using ::cpfeed::testing::RandomBatch;
using ::cpfeed::testing::StatusIs;
using ::testing::HasSubstr;

using LayoutAndSize = std::tuple<Layout, int>;

class PrepareBatchTest : public ::testing::TestWithParam<LayoutAndSize> {};

// Property: what is asked for covers what is made, and is asked for once.
TEST_P(PrepareBatchTest, ChargesAtLeastWhatPlansAndShardsTake) {
  const auto [layout, cp_size] = GetParam();
  std::mt19937_64 random(cp_size);
  for (int round = 0; round < 5; ++round) {
    const int64_t chunks = static_cast<int64_t>(random() % 3 + 1);
    const PackedBatch batch =
        RandomBatch({.num_rows = 2 * chunks, .fill = true}, random);
    std::vector<int64_t> charges;
    const auto prepared = PrepareBatch(
        batch, {.num_chunks = chunks, .auto_fill = true, .auto_pad = true},
        {.layout = layout,
         .stripe_width = 2,
         .chunk_size = 8,
         .token_multiple = 3},
        cp_size, [&](int64_t bytes) {
          charges.push_back(bytes);
          return absl::OkStatus();
        });
    ASSERT_THAT(prepared, IsOk());
    ASSERT_EQ(charges.size(), 1);
    EXPECT_GE(charges[0], prepared->ShardBytes() + prepared->PlanBytes());
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, PrepareBatchTest,
    ::testing::Combine(::testing::Values(Layout::kContiguous,
                                         Layout::kHeadTailPerRow,
                                         Layout::kHeadTailPerSequence,
                                         Layout::kStriped, Layout::kChunkGreedy,
                                         Layout::kPtrr, Layout::kBalanced),
                       ::testing::Values(1, 2, 3, 8)),
    [](const auto& info) {
      return absl::StrCat(LayoutName(std::get<0>(info.param)), "On",
                          std::get<1>(info.param));
    });

absl::Status NoMemory(int64_t) {
  return MakeError(absl::StatusCode::kResourceExhausted, kMemoryPressure,
                   "no memory");
}

// The planner would refuse these slots, had it been asked.
TEST(PrepareBatchChargeTest, NothingIsPlannedThatIsNotPaidFor) {
  PackedBatch batch = CountingBatch(1, 8);
  batch.seq_lens = Ragged({{3, 5}});
  const LayoutSpec layout{.layout = Layout::kHeadTailPerSequence};
  EXPECT_THAT(PrepareBatch(batch, {}, layout, 2), HasReason(kNotDivisible));
  const auto prepared = PrepareBatch(batch, {}, layout, 2, NoMemory);
  EXPECT_THAT(prepared, StatusIs(absl::StatusCode::kResourceExhausted,
                                 HasSubstr("no memory")));
  EXPECT_THAT(prepared, HasReason(kMemoryPressure));
}

// 1024 sequences of one token, padded to the 8192 tokens that 4096 ranks need:
// a plan of eight million segments out of some KiB.
TEST(PrepareBatchChargeTest, SegmentsOfInsertedTokensAreCounted) {
  PackedBatch batch = CountingBatch(1, 1024);
  batch.seq_lens = Ragged({std::vector<int64_t>(1024, 1)});
  int64_t asked = 0;
  const auto prepared = PrepareBatch(batch, {.auto_pad = true},
                                     {.layout = Layout::kHeadTailPerSequence},
                                     4096, [&](int64_t bytes) {
                                       asked = bytes;
                                       return NoMemory(bytes);
                                     });
  EXPECT_THAT(prepared, HasReason(kMemoryPressure));
  EXPECT_GE(asked, int64_t{1024} * 8192 * 12);
}

TEST(PrepareBatchPlansTest, BatchesOfTheSameLengthsShareTheirPlan) {
  PackedBatch batch = CountingBatch(1, 8);
  batch.seq_lens = Ragged({{3, 5}});
  const LayoutSpec layout{.layout = Layout::kBalanced};
  PlanCache plans;
  const auto first = PrepareBatch(batch, {}, layout, 2, {}, &plans);
  const auto second = PrepareBatch(batch, {}, layout, 2, {}, &plans);
  ASSERT_THAT(first, IsOk());
  ASSERT_THAT(second, IsOk());
  EXPECT_EQ(first->plans, second->plans);  // The very same objects.
  EXPECT_EQ(plans.counts().hits, 1);
  const auto alone = PrepareBatch(batch, {}, layout, 2);
  ASSERT_THAT(alone, IsOk());
  EXPECT_EQ(alone->plans[0]->digest, first->plans[0]->digest);
}

}  // namespace
}  // namespace cpfeed

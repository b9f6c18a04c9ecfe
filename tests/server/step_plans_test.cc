#include "server/step_plans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "core/batch/packed_batch.h"
#include "core/plan/layout.h"
#include "core/plan/plan_metrics.h"
#include "core/shard/prepare_batch.h"
#include "tests/testing/packed_batches.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::CountingBatch;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::Ragged;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class StepPlansTest : public ::testing::Test {
 protected:
  StepPlansTest() {
    PackedBatch batch = CountingBatch(2, 8);
    batch.seq_lens = Ragged({{3, 5}, {8}});
    auto prepared = PrepareBatch(batch, {.num_chunks = 2},
                                 {.layout = Layout::kBalanced}, 2);
    EXPECT_THAT(prepared, IsOk());
    prepared_ = *std::move(prepared);
  }

  PreparedBatch prepared_;
};

TEST_F(StepPlansTest, FiguresAreThoseOfThePlansThatTheRanksHave) {
  const StepPlans plans(DescribePlans(prepared_), 2);
  ASSERT_THAT(plans.figures(), SizeIs(2));
  for (size_t i = 0; i < 2; ++i) {
    const ChunkPlan& chunk = plans.chunks()[i];
    const PlanMetrics metrics = ComputePlanMetrics(*prepared_.plans[i]);
    EXPECT_EQ(chunk.digest, prepared_.plans[i]->digest);
    EXPECT_EQ(chunk.area_imbalance, metrics.area.imbalance());
    const ChunkFigures& figures = plans.figures()[i];
    EXPECT_EQ(figures.metrics.tokens.max, 4);
    EXPECT_EQ(figures.metrics.kv_rows_received.mean,
              metrics.kv_rows_received.mean);
    EXPECT_EQ(figures.bounds.max_tokens, 4);
    EXPECT_THAT(figures.metrics.ranks, IsEmpty());
  }
  EXPECT_EQ(&plans.figures(), &plans.figures());
}

TEST_F(StepPlansTest, PlansOfTooManySegmentsAreNotMeasured) {
  std::vector<ChunkPlan> chunks = DescribePlans(prepared_);
  chunks[1].num_segments = kMostMeasuredSegments + 1;
  const StepPlans plans(chunks, 2);
  ASSERT_THAT(plans.figures(), SizeIs(2));
  EXPECT_EQ(plans.figures()[0].metrics.tokens.max, 4);
  EXPECT_EQ(plans.figures()[1].metrics.tokens.max, 0);
}

}  // namespace
}  // namespace cpfeed

#include "server/step_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/step_plans.h"

namespace cpfeed {
namespace {

using ::testing::IsNull;
using ::testing::NotNull;

StepRecord RecordOf(int64_t step, int64_t num_sequences = 1) {
  std::vector<ChunkPlan> chunks(1);
  chunks[0].lengths.real.assign(num_sequences, 1);
  return {.step = step,
          .producer = "default",
          .batch_id = "b" + std::to_string(step),
          .plans = std::make_shared<const StepPlans>(std::move(chunks), 1)};
}

TEST(StepHistoryTest, KeepsTheNewestSteps) {
  StepHistory history({.max_steps = 2});
  EXPECT_THAT(history.Newest(), IsNull());
  for (const int64_t step : {7, 8, 9}) history.Add(RecordOf(step));
  EXPECT_THAT(history.Find(7), IsNull());
  ASSERT_THAT(history.Find(8), NotNull());
  EXPECT_EQ(history.Find(8)->batch_id, "b8");
  EXPECT_EQ(history.Newest()->step, 9);
}

TEST(StepHistoryTest, HoldsNoMoreBytesThanItMayButAlwaysTheNewest) {
  StepHistory history({.max_bytes = 20'000});
  history.Add(RecordOf(0, 1000));  // 8000 bytes of lengths each.
  history.Add(RecordOf(1, 1000));
  EXPECT_THAT(history.Find(0), NotNull());
  history.Add(RecordOf(2, 1000));
  EXPECT_THAT(history.Find(0), IsNull());
  EXPECT_LE(history.bytes(), 20'000);
  history.Add(RecordOf(3, 100'000));
  EXPECT_THAT(history.Find(2), IsNull());
  ASSERT_THAT(history.Newest(), NotNull());
  EXPECT_EQ(history.Newest()->step, 3);
}

TEST(StepHistoryTest, AStepThatComesAgainTakesThePlaceOfTheOld) {
  StepHistory history;
  history.Add(RecordOf(0));
  const int64_t bytes = history.bytes();
  history.Add(RecordOf(0));
  EXPECT_EQ(history.bytes(), bytes);
}

TEST(StepHistoryTest, ASeekForgetsWhatIsBehindIt) {
  StepHistory history;
  for (const int64_t step : {0, 1, 2}) history.Add(RecordOf(step));
  history.ForgetFrom(1);
  EXPECT_EQ(history.Newest()->step, 0);
  history.ForgetFrom(0);
  EXPECT_EQ(history.bytes(), 0);
}

}  // namespace
}  // namespace cpfeed

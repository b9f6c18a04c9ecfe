#include "client/worker/step_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/comm/loopback_communicator.h"
#include "tests/client/worker/job_steps.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Steps of these numbers; negative ones (-n) are skipped at every rank.
StepSource Numbered(std::vector<int64_t> numbers) {
  return [numbers = std::move(numbers), next = size_t{0}]() mutable
         -> absl::StatusOr<std::optional<WorkerStep>> {
    if (next == numbers.size()) return std::nullopt;
    const int64_t number = numbers[next++];
    WorkerStep step{.step = std::abs(number), .shard = std::nullopt};
    if (number >= 0) step.shard = StepShard();
    return step;
  };
}

// A group of one rank, which is its last.
class StepOrderTest : public ::testing::Test {
 protected:
  StepOrder Order(const StepOrderOptions& options,
                  const std::vector<int64_t>& numbers) {
    return StepOrder(options, Numbered(numbers), *group_[0]);
  }

  std::vector<std::unique_ptr<Communicator>> group_ = MakeLoopbackGroup(1);
};

TEST_F(StepOrderTest, GivesStepsInOrderWithoutThoseThatAreSkipped) {
  StepOrder order = Order({}, {3, -4, 5});
  std::vector<int64_t> given;
  while (true) {
    const auto step = order.Next();
    ASSERT_THAT(step, IsOk());
    if (!*step) break;
    given.push_back((*step)->step);
  }
  EXPECT_THAT(given, ElementsAre(3, 5));
  EXPECT_EQ(order.given(), 2);
}

TEST_F(StepOrderTest, AMissingStepIsNamed) {
  StepOrder order = Order({}, {3, 5});
  ASSERT_THAT(order.Next(), IsOk());
  EXPECT_THAT(order.Next(),
              AllOf(StatusIs(absl::StatusCode::kFailedPrecondition,
                             HasSubstr("rank 0 received step 5; must be 4")),
                    HasReason(kOutOfOrder)));
}

TEST_F(StepOrderTest, EndsAfterNumStepsAndNotBefore) {
  StepOrder order = Order({.num_steps = 2}, {0, 1, 2});
  ASSERT_THAT(order.Next(), IsOk());
  ASSERT_THAT(order.Next(), IsOk());
  const auto end = order.Next();
  ASSERT_THAT(end, IsOk());
  EXPECT_FALSE(end->has_value());
  StepOrder few = Order({.num_steps = 2}, {0});
  ASSERT_THAT(few.Next(), IsOk());
  EXPECT_THAT(few.Next(),
              StatusIs(absl::StatusCode::kOutOfRange,
                       HasSubstr("data ended after 1 steps; must be 2")));
}

TEST_F(StepOrderTest, BatchesThatNeverCameAreAnError) {
  auto expected = ExpectedBatches::Open(
      WriteLines({R"({"input_ids": [[1]]})", R"({"input_ids": [[2]]})"}));
  ASSERT_THAT(expected, IsOk());
  StepOrder order = Order({.expected = &*expected}, {0});
  ASSERT_THAT(order.Next(), IsOk());
  EXPECT_THAT(order.Next(), StatusIs(absl::StatusCode::kOutOfRange,
                                     HasSubstr("data ended after step 0")));
}

TEST_F(StepOrderTest, FaultsStrikeFromTheSecondStepOn) {
  StepOrder order = Order({.fault = Fault::kSwap}, {0, 1});
  ASSERT_THAT(order.Next(), IsOk());
  EXPECT_FALSE(order.Strikes(Fault::kSwap));
  ASSERT_THAT(order.Next(), IsOk());
  EXPECT_TRUE(order.Strikes(Fault::kSwap));
  EXPECT_FALSE(order.Strikes(Fault::kStaleKv));
  // A step that is lost is found by the one behind it.
  StepOrder dropping = Order({.fault = Fault::kDrop}, {0, 1, 2});
  ASSERT_THAT(dropping.Next(), IsOk());
  EXPECT_THAT(dropping.Next(), HasReason(kOutOfOrder));
}

}  // namespace
}  // namespace cpfeed::testing

#include "client/worker/fault.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/client/worker/job_steps.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(FaultTest, NamesAreParsed) {
  EXPECT_THAT(ParseFault(""), IsOkAndHolds(Fault::kNone));
  EXPECT_THAT(ParseFault("swap"), IsOkAndHolds(Fault::kSwap));
  EXPECT_THAT(ParseFault("drop"), IsOkAndHolds(Fault::kDrop));
  EXPECT_THAT(ParseFault("stale_kv"), IsOkAndHolds(Fault::kStaleKv));
  EXPECT_THAT(ParseFault("stale"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("\"stale\"; must be swap, drop or stale_kv")));
}

TEST(FaultTest, SwapExchangesTheFirstAndTheLastRow) {
  auto shards = ShardsOf(BatchOf({{{8, 8}}}, 1), {}, 2, 1);
  ASSERT_THAT(SwapRows(shards[0]), IsOk());
  for (const NamedTensor& named : shards[0].chunks[0].tensors) {
    if (named.name != "position_ids") continue;
    EXPECT_THAT(*named.tensor.ToInt64(), ElementsAre(7, 1, 6, 0));
  }
}

TEST(FaultTest, ShardWithoutTwoRowsCannotBeSwapped) {
  auto shards = ShardsOf(BatchOf({{{1, 1}}}, 1), {}, 1, 1);
  EXPECT_THAT(SwapRows(shards[0]),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("two")));
}

}  // namespace
}  // namespace cpfeed::testing

#include "client/worker/rank_threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/comm/collectives.h"
#include "core/comm/communicator.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::StatusIs;
using ::testing::HasSubstr;

class RankThreadsTest : public ::testing::TestWithParam<RankTransport> {
 protected:
  RankThreadsOptions Options() const {
    return {
        .num_ranks = 3, .transport = GetParam(), .timeout = absl::Minutes(2)};
  }
};

TEST_P(RankThreadsTest, AllRanksMeet) {
  EXPECT_THAT(RunRankThreads(Options(),
                             [](std::shared_ptr<Communicator> end) {
                               return Barrier(*end);
                             }),
              IsOk());
}

// A failing rank ends the others, and its own error is the one that is told.
TEST_P(RankThreadsTest, TheCauseIsToldAtOnce) {
  const absl::Time begin = absl::Now();
  EXPECT_THAT(
      RunRankThreads(Options(),
                     [](std::shared_ptr<Communicator> end) -> absl::Status {
                       if (end->rank() == 2) {
                         return absl::DataLossError("row 5 is wrong");
                       }
                       return Barrier(*end);
                     }),
      StatusIs(absl::StatusCode::kDataLoss, HasSubstr("row 5")));
  EXPECT_LT(absl::Now() - begin, Options().timeout);
}

INSTANTIATE_TEST_SUITE_P(Transports, RankThreadsTest,
                         ::testing::Values(RankTransport::kLoopback,
                                           RankTransport::kGloo));

}  // namespace
}  // namespace cpfeed

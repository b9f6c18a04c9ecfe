// Thousands of random events against a model.

#include <gtest/gtest.h>

#include <cstdint>

#include "core/session/session_config.h"
#include "tests/core/session/random_events.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::RandomEvents;

class SessionRandomTest : public ::testing::TestWithParam<Retention> {};

TEST_P(SessionRandomTest, AgreesWithTheModel) {
  int64_t deliveries = 0;
  int64_t seeks = 0;
  int64_t ends = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    RandomEvents events(GetParam(), seed);
    events.Run(5000);
    if (HasFailure()) return;
    deliveries += events.num_deliveries();
    seeks += events.num_seeks();
    ends += events.ended();
  }
  EXPECT_GT(deliveries, 5000);
  EXPECT_GT(seeks, 20);
  EXPECT_GT(ends, 0);
}

INSTANTIATE_TEST_SUITE_P(All, SessionRandomTest,
                         ::testing::Values(Retention::kReplay,
                                           Retention::kRetain),
                         [](const auto& info) {
                           return info.param == Retention::kReplay ? "Replay"
                                                                   : "Retain";
                         });

}  // namespace
}  // namespace cpfeed

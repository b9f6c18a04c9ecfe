// Which sessions can be made.

#include "core/session/session_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "core/base/error.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(SessionConfigTest, DefaultIsValid) {
  EXPECT_THAT(ValidateConfig({}), IsOk());
}

TEST(SessionConfigTest, BudgetOfOneLargestBatchForEachProducerIsEnough) {
  SessionConfig config{.producers = {"a", "b", "c"},
                       .memory_budget_bytes = 3 * 4 * 1000,
                       .max_batch_bytes = 1000};
  EXPECT_THAT(ValidateConfig(config), IsOk());
  --config.memory_budget_bytes;
  const absl::Status status = ValidateConfig(config);
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("limits.memory_budget_bytes is 11999"),
                             HasSubstr("12000 = 4 * 3 batches"),
                             HasSubstr("max_batch_bytes (1000)"))));
  EXPECT_THAT(status, HasReason(kMemoryPressure));
}

TEST(SessionConfigTest, RetainNeedsRoomForUncommittedStepsToo) {
  SessionConfig config{.retention = Retention::kRetain,
                       .max_uncommitted_steps = 10,
                       .memory_budget_bytes = (1 + 10) * 4 * 1000,
                       .max_batch_bytes = 1000};
  EXPECT_THAT(ValidateConfig(config), IsOk());
  --config.memory_budget_bytes;
  EXPECT_THAT(ValidateConfig(config),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("44000 = 4 * 11 batches")));
}

TEST(SessionConfigTest, LargestNumbersDoNotOverflow) {
  const SessionConfig config{.retention = Retention::kRetain,
                             .max_uncommitted_steps = int64_t{1} << 20,
                             .memory_budget_bytes = int64_t{1} << 50,
                             .max_batch_bytes = int64_t{1} << 40};
  EXPECT_THAT(ValidateConfig(config),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("must be at least 4611690416473899008")));
}

struct BadConfig {
  std::string name;
  std::function<void(SessionConfig&)> spoil;
  std::string message;
};

class BadConfigTest : public ::testing::TestWithParam<BadConfig> {};

TEST_P(BadConfigTest, IsRefusedByNameAndRange) {
  SessionConfig config;
  GetParam().spoil(config);
  const absl::Status status = ValidateConfig(config);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                               HasSubstr(GetParam().message)));
  EXPECT_THAT(status, HasReason(kBadOption));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadConfigTest,
    ::testing::ValuesIn(std::vector<BadConfig>{
        {"NoRank", [](auto& c) { c.cp_size = 0; },
         "topology.cp_size is 0; must be 1 to 4096"},
        {"NegativeRanks", [](auto& c) { c.cp_size = -3; },
         "topology.cp_size is -3"},
        {"TooManyRanks", [](auto& c) { c.cp_size = 4097; },
         "topology.cp_size is 4097"},
        {"NoConsumer", [](auto& c) { c.consumers_per_cp_rank = 0; },
         "topology.consumers_per_cp_rank is 0"},
        {"TooManyConsumers",
         [](auto& c) {
           c.cp_size = 4096;
           c.consumers_per_cp_rank = 17;
         },
         "number of consumers is 69632; must be 1 to 65536"},
        {"NoProducer", [](auto& c) { c.producers.clear(); },
         "number of producers is 0"},
        {"TooManyProducers", [](auto& c) { c.producers.assign(1025, "p"); },
         "number of producers is 1025"},
        {"NamelessProducer",
         [](auto& c) {
           c.producers = {"a", ""};
         },
         "producer id has 0 bytes; must be 1 to 63"},
        {"LongProducer", [](auto& c) { c.producers = {std::string(64, 'p')}; },
         "producer id has 64 bytes"},
        {"ProducerTwice",
         [](auto& c) {
           c.producers = {"a", "b", "a"};
         },
         "producer a is listed twice"},
        {"NoSkew", [](auto& c) { c.max_step_skew = 0; },
         "delivery.max_step_skew is 0"},
        {"NoUncommittedStep", [](auto& c) { c.max_uncommitted_steps = 0; },
         "delivery.max_uncommitted_steps is 0"},
        {"NoBudget", [](auto& c) { c.memory_budget_bytes = 0; },
         "limits.memory_budget_bytes is 0"},
        {"HugeBudget",
         [](auto& c) { c.memory_budget_bytes = (int64_t{1} << 50) + 1; },
         "limits.memory_budget_bytes is 1125899906842625"},
        {"NoBatch", [](auto& c) { c.max_batch_bytes = 0; },
         "limits.max_batch_bytes is 0"},
        {"HugeBatch",
         [](auto& c) { c.max_batch_bytes = (int64_t{1} << 40) + 1; },
         "limits.max_batch_bytes is 1099511627777"},
    }),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace cpfeed

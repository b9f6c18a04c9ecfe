#include "core/plan/check_lengths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/plan/shard_plan.h"
#include "tests/core/plan/packs.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOkAndHolds;
using ::cpfeed::testing::OneRow;
using ::cpfeed::testing::Rows;
using ::cpfeed::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(CheckLengthsTest, ReturnsTheSumOfTheSlots) {
  EXPECT_THAT(CheckLengths(OneRow({3, 0, 5}, {4, 0, 8})), IsOkAndHolds(12));
  EXPECT_THAT(CheckLengths({.row_splits = {0}}), IsOkAndHolds(0));
  EXPECT_THAT(CheckLengths(OneRow({std::numeric_limits<int32_t>::max()})),
              IsOkAndHolds(std::numeric_limits<int32_t>::max()));
}

struct BadLengths {
  std::string name;
  PackedLengths lengths;
  std::string reason;
  std::string message;
};

class CheckLengthsErrorTest : public ::testing::TestWithParam<BadLengths> {};

TEST_P(CheckLengthsErrorTest, NamesThePlace) {
  const BadLengths& bad = GetParam();
  EXPECT_THAT(CheckLengths(bad.lengths),
              AllOf(StatusIs(absl::StatusCode::kInvalidArgument,
                             HasSubstr(bad.message)),
                    HasReason(bad.reason)));
  EXPECT_THAT(PlanShards(bad.lengths, {}, 1), HasReason(bad.reason));
}

INSTANTIATE_TEST_SUITE_P(
    All, CheckLengthsErrorTest,
    ::testing::ValuesIn(std::vector<BadLengths>{
        {"RealAbovePadded",
         {{1, 2, 5}, {1, 2, 4}, {0, 1, 3}},
         kLengthsInconsistent,
         "row 1: sequence 1: real length is 5; must be at most its padded "
         "length, 4"},
        {"Negative",
         {{1, -1}, {1, 4}, {0, 2}},
         kLengthsInconsistent,
         "row 0: sequence 1: real length is -1; must be at least 0"},
        {"CountsDiffer",
         {{1, 2}, {1}, {0, 2}},
         kLengthsInconsistent,
         "2 real and 1 padded lengths"},
        {"NoSplits", {{1}, {1}, {}}, kLengthsInconsistent, "row_splits"},
        {"SplitsStartLate",
         {{1}, {1}, {1, 1}},
         kLengthsInconsistent,
         "row_splits go from 1 to 1; must go from 0 to the number of "
         "sequences, 1"},
        {"SplitsEndEarly",
         {{1, 1}, {1, 1}, {0, 1}},
         kLengthsInconsistent,
         "row_splits go from 0 to 1"},
        {"SplitsFall",
         {{1, 1}, {1, 1}, {0, 2, 1, 2}},
         kLengthsInconsistent,
         "row_splits fall from 2 to 1 at row 1"},
        {"TooManyTokens",
         {{0, 0}, {2147483647, 1}, {0, 2}},
         kBatchTooLarge,
         "row 0: sequence 1: 1 padded tokens behind 2147483647 of the chunk; "
         "must be at most 2147483647 in all"},
        {"SumOverflows",
         {{0, 0, 0},
          {1, std::numeric_limits<int64_t>::max(),
           std::numeric_limits<int64_t>::max()},
          {0, 3}},
         kBatchTooLarge,
         "row 0: sequence 1: 9223372036854775807 padded tokens behind 1"},
    }),
    [](const auto& info) { return info.param.name; });

struct Indivisible {
  std::string name;
  LayoutSpec spec;
  int cp_size;
  PackedLengths lengths;
  std::string message;
};

class CheckDivisibleTest : public ::testing::TestWithParam<Indivisible> {};

TEST_P(CheckDivisibleTest, NamesPlaceValueAndMultiple) {
  const Indivisible& bad = GetParam();
  const auto plan = PlanShards(bad.lengths, bad.spec, bad.cp_size);
  EXPECT_THAT(plan, HasReason(kNotDivisible));
  EXPECT_EQ(plan.status().message(), bad.message);
}

constexpr LayoutSpec kPerSequence = {.layout = Layout::kHeadTailPerSequence};

INSTANTIATE_TEST_SUITE_P(
    All, CheckDivisibleTest,
    ::testing::ValuesIn(std::vector<Indivisible>{
        {"TwoSlots", kPerSequence, 2, OneRow({4, 8, 6, 10}),
         "row 0: sequence 2: 6, sequence 3: 10 padded tokens; each must be a "
         "multiple of 4 (2 * cp_size)"},
        {"SlotsOfTwoRows", kPerSequence, 2, Rows({{4, 2, 2}, {4}, {1, 0, 3}}),
         "row 0: sequence 1: 2, sequence 2: 2; row 2: sequence 0: 1, sequence "
         "2: 3 padded tokens; each must be a multiple of 4 (2 * cp_size)"},
        {"ManySlots", kPerSequence, 2, OneRow(std::vector<int64_t>(100, 3)),
         "row 0: sequence 0: 3, sequence 1: 3, sequence 2: 3, sequence 3: 3, "
         "sequence 4: 3, sequence 5: 3, sequence 6: 3, sequence 7: 3 and 92 "
         "more padded tokens; each must be a multiple of 4 (2 * cp_size)"},
        // The published token formula holds position 3 twice and drops 5.
        {"SixOnTwo", kPerSequence, 2, OneRow({6}),
         "row 0: sequence 0: 6 padded tokens; each must be a multiple of 4 (2 "
         "* cp_size)"},
        // Sum and last boundary divide, the boundary between does not.
        {"ThreeAndFive", kPerSequence, 2, OneRow({3, 5}),
         "row 0: sequence 0: 3, sequence 1: 5 padded tokens; each must be a "
         "multiple of 4 (2 * cp_size)"},
        {"PaddedToCpSizeOnly", kPerSequence, 4, OneRow({5}, {12}),
         "row 0: sequence 0: 12 padded tokens; each must be a multiple of 8 "
         "(2 * cp_size)"},
        {"Row",
         {.layout = Layout::kHeadTailPerRow},
         2,
         Rows({{4}, {6}, {2}}),
         "row 1: 6; row 2: 2 padded tokens; each must be a multiple of 4 (2 * "
         "cp_size)"},
        {"Contiguous",
         {.layout = Layout::kContiguous},
         4,
         OneRow({6}),
         "the chunk has 6 padded tokens; must be a multiple of 4 (cp_size)"},
        {"Striped",
         {.layout = Layout::kStriped, .stripe_width = 3},
         2,
         OneRow({8}),
         "the chunk has 8 padded tokens; must be a multiple of 6 (cp_size * "
         "stripe_width)"},
        {"ChunkGreedy",
         {.layout = Layout::kChunkGreedy},
         2,
         OneRow({384}),
         "the chunk has 384 padded tokens; must be a multiple of 256 "
         "(chunk_size * cp_size)"},
        {"Ptrr",
         {.layout = Layout::kPtrr},
         3,
         OneRow({256}),
         "the chunk has 256 padded tokens; must be a multiple of 384 (128 * "
         "cp_size)"},
    }),
    [](const auto& info) { return info.param.name; });

// A stream that is longer than its sequences say cannot be expressed: the
// lengths are the stream. Trailing sentinels are refused as negative.
TEST(CheckLengthsTest, RefusesTrailingSentinels) {
  EXPECT_THAT(CheckLengths(OneRow({8, -1000})),
              HasReason(kLengthsInconsistent));
}

TEST(CheckDivisibleTest, TrailingEmptySequencesAreLegal) {
  EXPECT_THAT(PlanShards(OneRow({8, 0, 0}), kPerSequence, 2),
              Not(HasReason(kNotDivisible)));
}

}  // namespace
}  // namespace cpfeed

#include "core/batch/auto_pad.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::IsOk;
using ::testing::ElementsAreArray;

using Scope = PadRule::Scope;

struct PadCase {
  std::string name;
  Scope scope;
  int64_t multiple;
  int64_t rows_per_chunk;
  std::vector<int64_t> expected;
};

class AutoPadTest : public ::testing::TestWithParam<PadCase> {};

// Rows {3, 0, 6 | 5 | 0, 4 | 8}.
TEST_P(AutoPadTest, GrowsTails) {
  PackedLengths lengths{.real = {1, 0, 6, 5, 0, 2, 8},
                        .padded = {3, 0, 6, 5, 0, 4, 8},
                        .row_splits = {0, 3, 4, 6, 7}};
  const PackedLengths before = lengths;
  const PadRule rule{.scope = GetParam().scope,
                     .multiple = GetParam().multiple};
  ASSERT_THAT(AutoPad(rule, GetParam().rows_per_chunk, lengths), IsOk());
  EXPECT_THAT(lengths.padded, ElementsAreArray(GetParam().expected));
  EXPECT_EQ(lengths.real, before.real);
  EXPECT_EQ(lengths.row_splits, before.row_splits);
}

INSTANTIATE_TEST_SUITE_P(
    All, AutoPadTest,
    ::testing::ValuesIn(std::vector<PadCase>{
        {"Nothing", Scope::kNone, 4, 1, {3, 0, 6, 5, 0, 4, 8}},
        {"SlotsButNotThoseOfZero", Scope::kSlot, 4, 1, {4, 0, 8, 8, 0, 4, 8}},
        {"SlotsByOne", Scope::kSlot, 1, 1, {3, 0, 6, 5, 0, 4, 8}},
        {"LastSlotOfEachRow", Scope::kRow, 4, 2, {3, 0, 9, 8, 0, 4, 8}},
        {"LastSlotOfEachChunk", Scope::kChunk, 10, 2, {3, 0, 6, 11, 0, 4, 16}},
        {"LastSlotOfTheOnlyChunk",
         Scope::kChunk,
         16,
         4,
         {3, 0, 6, 5, 0, 4, 14}},
    }),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace cpfeed

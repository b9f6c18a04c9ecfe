#include "core/plan/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "core/base/error.h"
#include "core/plan/layout_spec.h"
#include "core/plan/shard_plan.h"
#include "tests/core/plan/packs.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::IsOkAndHolds;
using ::cpfeed::testing::OneRow;
using ::cpfeed::testing::StatusIs;
using ::testing::AllOf;
using ::testing::FieldsAre;
using ::testing::HasSubstr;

TEST(LayoutNameTest, NamesAreTheSpecifications) {
  std::vector<std::string> names;
  for (const Layout layout : AllLayouts()) {
    names.emplace_back(LayoutName(layout));
  }
  EXPECT_THAT(names,
              ::testing::ElementsAre("CONTIGUOUS", "HEAD_TAIL_PER_ROW",
                                     "HEAD_TAIL_PER_SEQUENCE", "STRIPED",
                                     "CHUNK_GREEDY", "PTRR", "BALANCED"));
}

TEST(ParseLayoutTest, ReadsNamesInEitherCase) {
  for (const Layout layout : AllLayouts()) {
    const std::string name(LayoutName(layout));
    EXPECT_THAT(ParseLayout(name), IsOkAndHolds(layout));
    EXPECT_THAT(ParseLayout(absl::AsciiStrToLower(name)), IsOkAndHolds(layout));
  }
}

TEST(ParseLayoutTest, ListsTheNamesWhereItKnowsNone) {
  EXPECT_THAT(
      ParseLayout("zigzag"),
      AllOf(StatusIs(absl::StatusCode::kInvalidArgument,
                     AllOf(HasSubstr("\"zigzag\""),
                           HasSubstr("CONTIGUOUS, HEAD_TAIL_PER_ROW, "))),
            HasReason(kBadOption)));
  EXPECT_THAT(ParseLayout(""), HasReason(kBadOption));
}

TEST(ResolveLayoutTest, DefaultDependsOnLengths) {
  EXPECT_EQ(ResolveLayout({}, true).layout, Layout::kHeadTailPerSequence);
  EXPECT_EQ(ResolveLayout({}, false).layout, Layout::kHeadTailPerRow);
  EXPECT_EQ(ResolveLayout({.layout = Layout::kPtrr}, true).layout,
            Layout::kPtrr);
}

TEST(PadRuleOfTest, SaysScopeAndMultiple) {
  using Scope = PadRule::Scope;
  const auto rule = [](LayoutSpec spec) { return PadRuleOf(spec, 4); };
  EXPECT_THAT(rule({.layout = Layout::kContiguous}),
              FieldsAre(Scope::kChunk, 4));
  EXPECT_THAT(rule({.layout = Layout::kContiguous, .uneven = true}),
              FieldsAre(Scope::kNone, 1));
  EXPECT_THAT(rule({.layout = Layout::kHeadTailPerRow}),
              FieldsAre(Scope::kRow, 8));
  EXPECT_THAT(rule({.layout = Layout::kHeadTailPerSequence}),
              FieldsAre(Scope::kSlot, 8));
  EXPECT_THAT(rule({.layout = Layout::kStriped, .stripe_width = 3}),
              FieldsAre(Scope::kChunk, 12));
  EXPECT_THAT(rule({.layout = Layout::kChunkGreedy, .chunk_size = 64}),
              FieldsAre(Scope::kChunk, 256));
  EXPECT_THAT(rule({.layout = Layout::kPtrr}), FieldsAre(Scope::kChunk, 512));
  EXPECT_THAT(rule({.layout = Layout::kBalanced}), FieldsAre(Scope::kNone, 1));
}

TEST(PadRuleOfTest, OneRankNeedsNothing) {
  for (const Layout layout : AllLayouts()) {
    EXPECT_THAT(PadRuleOf({.layout = layout}, 1),
                FieldsAre(PadRule::Scope::kNone, 1));
  }
}

TEST(CheckLayoutSpecTest, ParametersOfOtherLayoutsAreIgnored) {
  EXPECT_THAT(CheckLayoutSpec({.layout = Layout::kPtrr, .stripe_width = -1}, 2),
              IsOk());
}

struct BadSpec {
  std::string name;
  LayoutSpec spec;
  int64_t cp_size;
  std::string message;
};

class CheckLayoutSpecErrorTest : public ::testing::TestWithParam<BadSpec> {};

TEST_P(CheckLayoutSpecErrorTest, NamesParameterAndRange) {
  const BadSpec& bad = GetParam();
  EXPECT_THAT(CheckLayoutSpec(bad.spec, bad.cp_size),
              AllOf(StatusIs(absl::StatusCode::kInvalidArgument,
                             HasSubstr(bad.message)),
                    HasReason(kBadOption)));
  EXPECT_THAT(PlanShards(OneRow({8}), bad.spec, static_cast<int>(bad.cp_size)),
              HasReason(kBadOption));
}

INSTANTIATE_TEST_SUITE_P(
    All, CheckLayoutSpecErrorTest,
    ::testing::ValuesIn(std::vector<BadSpec>{
        {"NoRank", {}, 0, "cp_size is 0; must be in [1, 65536]"},
        {"NegativeGroup", {}, -3, "cp_size is -3; must be in [1, 65536]"},
        {"HugeGroup", {}, 65537, "cp_size is 65537; must be in [1, 65536]"},
        {"NoStripe",
         {.layout = Layout::kStriped, .stripe_width = 0},
         2,
         "stripe_width is 0; must be in [1, 2147483647]"},
        {"HugeStripe",
         {.layout = Layout::kStriped,
          .stripe_width = std::numeric_limits<int64_t>::max()},
         2,
         "stripe_width is 9223372036854775807"},
        {"NoChunk",
         {.layout = Layout::kChunkGreedy, .chunk_size = -1},
         2,
         "chunk_size is -1; must be in [1, 2147483647]"},
        {"NoMultiple",
         {.layout = Layout::kBalanced, .token_multiple = 0},
         2,
         "token_multiple is 0; must be in [1, 2147483647]"},
        {"UnknownLayout",
         {.layout = static_cast<Layout>(42)},
         2,
         "layout is number 42"},
    }),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace cpfeed

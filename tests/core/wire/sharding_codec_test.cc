#include "core/wire/sharding_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/plan/layout.h"
#include "core/plan/layout_spec.h"
#include "core/plan/visible_keys.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::StatusIs;
using ::testing::HasSubstr;

TEST(ShardingCodecTest, LayoutsHaveTheNumbersOfTheProto) {
  std::vector<Layout> layouts = AllLayouts();
  layouts.push_back(Layout::kAuto);
  EXPECT_EQ(v1::Layout_MAX, static_cast<int>(layouts.size()));
  for (const Layout layout : layouts) {
    EXPECT_EQ(v1::Layout_Name(static_cast<v1::Layout>(layout)),
              absl::StrCat("LAYOUT_", LayoutName(layout)));
  }
}

TEST(ShardingCodecTest, NothingSaidMeansDefaults) {
  const auto sharding = ShardingFromProto({});
  ASSERT_THAT(sharding, IsOk());
  EXPECT_EQ(sharding->layout.layout, Layout::kUnspecified);
  EXPECT_FALSE(sharding->layout.uneven);
  EXPECT_EQ(sharding->layout.stripe_width, 1);
  EXPECT_EQ(sharding->layout.chunk_size, 128);
  EXPECT_FALSE(sharding->layout.keep_padding);
  EXPECT_EQ(sharding->layout.token_multiple, 1);
  EXPECT_EQ(sharding->layout.objective, Objective::kUnspecified);
  EXPECT_EQ(sharding->layout.mask, VisibleKeys::Causal());
  EXPECT_EQ(sharding->layout.linear_cost, 0);
  EXPECT_EQ(sharding->options.num_chunks, 1);
  EXPECT_EQ(sharding->options.padding_token_id, 0);
  EXPECT_EQ(sharding->options.seq_lens_padding_value, -1000);
  EXPECT_FALSE(sharding->options.auto_fill);
  EXPECT_FALSE(sharding->options.auto_pad);
}

TEST(ShardingCodecTest, EveryFieldArrives) {
  v1::ShardingSpec proto;
  proto.set_layout(v1::LAYOUT_STRIPED);
  proto.set_uneven(true);
  proto.set_stripe_width(2);
  proto.set_chunk_size(3);
  proto.set_keep_padding(true);
  proto.set_token_multiple(4);
  proto.set_objective(v1::OBJECTIVE_TILE);
  proto.set_mask(v1::MASK_KIND_WINDOW);
  proto.set_window_left(5);
  proto.set_linear_cost(26600);
  proto.set_num_chunks(64);
  proto.set_padding_token_id(-6);
  proto.set_seq_lens_padding_value(-7);
  proto.set_auto_fill(true);
  proto.set_auto_pad(true);
  const auto sharding = ShardingFromProto(proto);
  ASSERT_THAT(sharding, IsOk());
  EXPECT_EQ(sharding->layout.layout, Layout::kStriped);
  EXPECT_TRUE(sharding->layout.uneven);
  EXPECT_EQ(sharding->layout.stripe_width, 2);
  EXPECT_EQ(sharding->layout.chunk_size, 3);
  EXPECT_TRUE(sharding->layout.keep_padding);
  EXPECT_EQ(sharding->layout.token_multiple, 4);
  EXPECT_EQ(sharding->layout.objective, Objective::kTile);
  EXPECT_EQ(sharding->layout.mask, VisibleKeys::Window(5));
  EXPECT_EQ(sharding->layout.linear_cost, 26600);
  EXPECT_EQ(sharding->options.num_chunks, 64);
  EXPECT_EQ(sharding->options.padding_token_id, -6);
  EXPECT_EQ(sharding->options.seq_lens_padding_value, -7);
  EXPECT_TRUE(sharding->options.auto_fill);
  EXPECT_TRUE(sharding->options.auto_pad);
}

TEST(ShardingCodecTest, LayoutRoundTrips) {
  for (const Layout layout : AllLayouts()) {
    const LayoutSpec spec = {.layout = layout,
                             .uneven = true,
                             .stripe_width = 5,
                             .chunk_size = 6,
                             .keep_padding = true,
                             .token_multiple = 7,
                             .objective = Objective::kArea,
                             .mask = VisibleKeys::Full(),
                             .linear_cost = 9};
    const auto sharding = ShardingFromProto(ShardingToProto(spec));
    ASSERT_THAT(sharding, IsOk());
    EXPECT_EQ(sharding->layout.layout, layout);
    EXPECT_TRUE(sharding->layout.uneven);
    EXPECT_EQ(sharding->layout.stripe_width, 5);
    EXPECT_EQ(sharding->layout.chunk_size, 6);
    EXPECT_TRUE(sharding->layout.keep_padding);
    EXPECT_EQ(sharding->layout.token_multiple, 7);
    EXPECT_EQ(sharding->layout.objective, Objective::kArea);
    EXPECT_EQ(sharding->layout.mask, VisibleKeys::Full());
    EXPECT_EQ(sharding->layout.linear_cost, 9);
  }
}

struct BadSharding {
  std::string name;
  std::function<void(v1::ShardingSpec&)> spoil;
  std::string message;
};

class BadShardingTest : public ::testing::TestWithParam<BadSharding> {};

TEST_P(BadShardingTest, IsRefusedByName) {
  v1::ShardingSpec proto;
  GetParam().spoil(proto);
  const auto sharding = ShardingFromProto(proto);
  EXPECT_THAT(sharding, StatusIs(absl::StatusCode::kInvalidArgument,
                                 HasSubstr(GetParam().message)));
  EXPECT_THAT(sharding, HasReason(kBadOption));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadShardingTest,
    ::testing::ValuesIn(std::vector<BadSharding>{
        {"UnknownLayout",
         [](auto& p) { p.set_layout(static_cast<v1::Layout>(9)); },
         "sharding.layout is 9, which is no layout"},
        // The low byte would be CONTIGUOUS.
        {"LayoutThatWraps",
         [](auto& p) { p.set_layout(static_cast<v1::Layout>(257)); },
         "sharding.layout is 257"},
        {"NegativeStripe", [](auto& p) { p.set_stripe_width(-1); },
         "sharding.stripe_width is -1; must be at least 1"},
        {"NegativeChunk", [](auto& p) { p.set_chunk_size(-128); },
         "sharding.chunk_size is -128; must be at least 1"},
        {"NegativeMultiple", [](auto& p) { p.set_token_multiple(INT64_MIN); },
         "sharding.token_multiple is -9223372036854775808"},
        {"NegativeChunks", [](auto& p) { p.set_num_chunks(-1); },
         "sharding.num_chunks is -1; must be 1 to 64"},
        {"TooManyChunks", [](auto& p) { p.set_num_chunks(65); },
         "sharding.num_chunks is 65; must be 1 to 64"},
        {"UnknownObjective",
         [](auto& p) { p.set_objective(static_cast<v1::Objective>(3)); },
         "sharding.objective is 3, which is no objective"},
        {"UnknownMask",
         [](auto& p) { p.set_mask(static_cast<v1::MaskKind>(4)); },
         "sharding.mask is 4, which is no mask"},
        {"NegativeWindow",
         [](auto& p) {
           p.set_mask(v1::MASK_KIND_WINDOW);
           p.set_window_left(-1);
         },
         "sharding.window_left is -1; must be at least 0"},
        {"NegativeLinearCost", [](auto& p) { p.set_linear_cost(-1); },
         "sharding.linear_cost is -1; must be at least 0"},
        {"SentinelThatIsALength",
         [](auto& p) { p.set_seq_lens_padding_value(0); },
         "sharding.seq_lens_padding_value is 0; must be negative"},
    }),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace cpfeed

#include "client/worker/step_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "client/worker/token_feature.h"
#include "core/plan/shard_plan.h"
#include "tests/core/plan/packs.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed::testing {
namespace {

using ::testing::HasSubstr;

constexpr AttentionShape kShape{
    .num_heads = 1, .num_kv_heads = 1, .head_dim = 1};

// A document of one token: its output is its value, whatever the keys.
const std::vector<ExpectedSequence> kDocuments = {{{7}, {0}}, {{8}, {0}}};

ChunkOutputs Outputs(std::vector<std::vector<float>> ranks) {
  // [7 .][8 .] over two ranks: 7 and 8 on rank 0, padding on rank 1.
  auto plan = PlanShards(OneRow({1, 1}, {4, 4}), {}, 2);
  EXPECT_THAT(plan, IsOk());
  return {std::make_shared<const ShardPlan>(*std::move(plan)),
          std::move(ranks)};
}

float ValueOf(int64_t token) {
  return static_cast<float>(TokenFeature(FeatureKind::kValue, token, 0, 0, 0));
}

TEST(StepCheckTest, RightOutputsDoNotDiffer) {
  EXPECT_THAT(MaxDifferenceToOneDevice(
                  kDocuments, kShape,
                  {Outputs({{ValueOf(7), 0, ValueOf(8), 0}, {0, 0, 0, 0}})}),
              IsOkAndHolds(0.0));
}

TEST(StepCheckTest, WrongOutputShowsAndPaddingDoesNotMatter) {
  EXPECT_THAT(
      MaxDifferenceToOneDevice(
          kDocuments, kShape,
          {Outputs({{ValueOf(7), 0, ValueOf(8) + 0.25f, 9}, {9, 9, 9, 9}})}),
      IsOkAndHolds(0.25));
}

TEST(StepCheckTest, NaNIsTheLargestDifference) {
  const auto difference = MaxDifferenceToOneDevice(
      kDocuments, kShape,
      {Outputs({{std::nanf(""), 0, ValueOf(8), 0}, {0, 0, 0, 0}})});
  ASSERT_THAT(difference, IsOk());
  EXPECT_GT(*difference, 1e300);
}

TEST(StepCheckTest, OtherDocumentsAreDataLoss) {
  const ChunkOutputs outputs = Outputs({{0, 0, 0, 0}, {0, 0, 0, 0}});
  const auto check = [&](std::vector<ExpectedSequence> documents) {
    return MaxDifferenceToOneDevice(documents, kShape, {outputs});
  };
  EXPECT_THAT(check({{{7}, {0}}, {{8, 9}, {0, 1}}}),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("document 1 has 1 tokens; the one that was "
                                 "fed has 2")));
  EXPECT_THAT(check({{{7}, {0}}}),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("more documents than the 1")));
  EXPECT_THAT(check({{{7}, {0}}, {{8}, {0}}, {{9}, {0}}}),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("step has 2 documents; the batch that was fed "
                                 "has 3")));
}

// A plan that gives a token to nobody, or to two ranks.
TEST(StepCheckTest, TokenOfNoRankOrTwoIsDataLoss) {
  ChunkOutputs outputs = Outputs({{0, 0, 0, 0}, {0, 0, 0, 0}});
  ShardPlan plan = *outputs.plan;
  plan.ranks[0].segments = {{0, 0, 1}, {0, 3, 1}};
  plan.ranks[0].num_tokens = 2;
  outputs.plan = std::make_shared<const ShardPlan>(plan);
  EXPECT_THAT(MaxDifferenceToOneDevice(kDocuments, kShape, {outputs}),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("document 1: position 0 came from no rank")));
  plan.ranks[1].segments = {{0, 0, 3}};
  plan.ranks[1].num_tokens = 3;
  outputs.plan = std::make_shared<const ShardPlan>(plan);
  EXPECT_THAT(MaxDifferenceToOneDevice(kDocuments, kShape, {outputs}),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("position 0 came from two ranks")));
}

}  // namespace
}  // namespace cpfeed::testing

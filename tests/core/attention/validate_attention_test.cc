#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "core/attention/cp_attention.h"
#include "core/base/error.h"
#include "core/comm/loopback_communicator.h"
#include "core/plan/shard_plan.h"
#include "tests/core/plan/packs.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed::testing {
namespace {

using ::testing::HasSubstr;

struct BadInputs {
  std::string name;
  std::function<void(AttentionInputs&)> spoil;
  std::string message;
};

// Rank 0 of 2 of one sequence of 8: 4 rows.
AttentionInputs GoodInputs() {
  return {.q = at::zeros({4, 4, 8}),
          .k = at::zeros({4, 2, 8}),
          .v = at::zeros({4, 2, 6})};
}

class ValidateAttentionTest : public ::testing::TestWithParam<BadInputs> {};

TEST_P(ValidateAttentionTest, SaysWhatIsWrong) {
  const auto group = MakeLoopbackGroup(2);
  const auto plan = PlanShards(OneRow({8}), {}, 2);
  ASSERT_THAT(plan, IsOk());
  AttentionInputs inputs = GoodInputs();
  ASSERT_THAT(ValidateAttention(inputs, *plan, *group[0]), IsOk());
  GetParam().spoil(inputs);
  EXPECT_THAT(ValidateAttention(inputs, *plan, *group[0]),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    All, ValidateAttentionTest,
    ::testing::ValuesIn(std::vector<BadInputs>{
        {"Rank2",
         [](auto& in) {
           in.q = at::zeros({4, 8});
         },
         "q is [4, 8]; must be [rows, heads, head_dim]"},
        {"RowsOfKeys",
         [](auto& in) {
           in.k = at::zeros({8, 2, 8});
         },
         "k is [8, 2, 8]; must be of the plan's 4 local rows"},
        {"RowsOfValues",
         [](auto& in) {
           in.v = at::zeros({3, 2, 6});
         },
         "v is [3, 2, 6]; must be of the plan's 4 local rows"},
        {"NoHeads",
         [](auto& in) {
           in.k = at::zeros({4, 0, 8});
         },
         "k is [4, 0, 8]; must be of at least one head"},
        {"HeadDim",
         [](auto& in) {
           in.k = at::zeros({4, 2, 4});
         },
         "k is [4, 2, 4]; must be of q's head_dim 8"},
        {"ValueHeads",
         [](auto& in) {
           in.v = at::zeros({4, 4, 6});
         },
         "v is [4, 4, 6]; must be of k's 2 heads"},
        {"HeadsNoMultiple",
         [](auto& in) {
           in.q = at::zeros({4, 5, 8});
         },
         "q is [4, 5, 8]; must be of a multiple of k's 2 heads"},
        {"Dtypes", [](auto& in) { in.v = in.v.to(at::kDouble); },
         "v is Double; must be q's Float"},
        {"Scale",
         [](auto& in) { in.scale = std::numeric_limits<double>::infinity(); },
         "scale is inf; must be finite"},
    }),
    [](const auto& info) { return info.param.name; });

TEST(ValidateAttentionTest, PlanOfAnotherSizeNamesBoth) {
  const auto group = MakeLoopbackGroup(2);
  const auto plan = PlanShards(OneRow({8}), {}, 4);
  ASSERT_THAT(plan, IsOk());
  const absl::Status status = ValidateAttention(GoodInputs(), *plan, *group[0]);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                               HasSubstr("plan is for cp_size 4; the group has "
                                         "2 ranks")));
  EXPECT_THAT(status, HasReason(kTopologyMismatch));
}

}  // namespace
}  // namespace cpfeed::testing

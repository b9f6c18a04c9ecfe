#include "core/plan/layouts/balanced.h"

#include <limits>

#include "core/base/error.h"

namespace cpfeed {
namespace {

constexpr LayoutParameter kParameters[] = {
    {.name = "keep_padding",
     .value = [](const LayoutSpec& spec) -> int64_t {
       return spec.keep_padding;
     },
     .least = 0,
     .most = 1},
    {.name = "token_multiple",
     .value = [](const LayoutSpec& spec) { return spec.token_multiple; },
     .least = 1,
     .most = std::numeric_limits<int32_t>::max()},
};

PadRule Needs(const LayoutSpec&, int64_t) { return {}; }

int64_t MaxCuts(const DealRequest& request) { return request.cp_size; }

absl::Status Deal(const DealRequest&, std::vector<RankPlan>&) {
  return MakeError(absl::StatusCode::kUnimplemented, kBadOption,
                   "layout BALANCED has no planner in this version; must be "
                   "another layout");
}

}  // namespace

const LayoutRule kBalancedRule = {
    .layout = Layout::kBalanced,
    .name = "BALANCED",
    .parameters = kParameters,
    .needs = Needs,
    .multiple_formula = "",
    .max_cuts = MaxCuts,
    .deal = Deal,
};

}  // namespace cpfeed

#include "core/plan/layouts/striped.h"

#include <limits>

#include "core/plan/layouts/stream_dealer.h"

namespace cpfeed {
namespace {

constexpr LayoutParameter kParameters[] = {
    {.name = "stripe_width",
     .value = [](const LayoutSpec& spec) { return spec.stripe_width; },
     .least = 1,
     .most = std::numeric_limits<int32_t>::max()},
};

PadRule Needs(const LayoutSpec& spec, int64_t cp_size) {
  return {.scope = PadRule::Scope::kChunk,
          .multiple = cp_size * spec.stripe_width};
}

int64_t MaxCuts(const DealRequest& request) {
  return request.total_tokens / request.spec.stripe_width;
}

absl::Status Deal(const DealRequest& request, std::vector<RankPlan>& ranks) {
  const int64_t width = request.spec.stripe_width;
  const int64_t num_rounds = request.total_tokens / (width * request.cp_size);
  for (RankPlan& rank : ranks) rank.segments.reserve(num_rounds);
  StreamDealer dealer(request.lengths, ranks);
  for (int64_t round = 0; round < num_rounds; ++round) {
    for (int rank = 0; rank < request.cp_size; ++rank) dealer.Give(rank, width);
  }
  return absl::OkStatus();
}

}  // namespace

const LayoutRule kStripedRule = {
    .layout = Layout::kStriped,
    .name = "STRIPED",
    .parameters = kParameters,
    .needs = Needs,
    .multiple_formula = "cp_size * stripe_width",
    .max_cuts = MaxCuts,
    .deal = Deal,
};

}  // namespace cpfeed

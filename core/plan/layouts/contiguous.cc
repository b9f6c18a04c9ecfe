#include "core/plan/layouts/contiguous.h"

#include "core/plan/layouts/stream_dealer.h"

namespace cpfeed {
namespace {

constexpr LayoutParameter kParameters[] = {
    {.name = "uneven",
     .value = [](const LayoutSpec& spec) -> int64_t { return spec.uneven; },
     .least = 0,
     .most = 1},
};

PadRule Needs(const LayoutSpec& spec, int64_t cp_size) {
  if (spec.uneven) return {};
  return {.scope = PadRule::Scope::kChunk, .multiple = cp_size};
}

int64_t MaxCuts(const DealRequest& request) { return request.cp_size; }

absl::Status Deal(const DealRequest& request, std::vector<RankPlan>& ranks) {
  StreamDealer dealer(request.lengths, ranks);
  const int64_t total = request.total_tokens;
  for (int64_t rank = 0; rank < request.cp_size; ++rank) {
    const int64_t begin = rank * total / request.cp_size;
    const int64_t end = (rank + 1) * total / request.cp_size;
    dealer.Give(static_cast<int>(rank), end - begin);
  }
  return absl::OkStatus();
}

}  // namespace

const LayoutRule kContiguousRule = {
    .layout = Layout::kContiguous,
    .name = "CONTIGUOUS",
    .parameters = kParameters,
    .needs = Needs,
    .multiple_formula = "cp_size",
    .max_cuts = MaxCuts,
    .deal = Deal,
};

}  // namespace cpfeed

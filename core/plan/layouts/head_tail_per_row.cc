#include "core/plan/layouts/head_tail_per_row.h"

#include "core/plan/layouts/stream_dealer.h"

namespace cpfeed {
namespace {

PadRule Needs(const LayoutSpec&, int64_t cp_size) {
  return {.scope = PadRule::Scope::kRow, .multiple = 2 * cp_size};
}

int64_t MaxCuts(const DealRequest& request) {
  return 2 * int64_t{request.cp_size} * request.lengths.num_rows();
}

int64_t RowWidth(const PackedLengths& lengths, int64_t row) {
  int64_t width = 0;
  for (int64_t s = lengths.row_splits[row]; s < lengths.row_splits[row + 1];
       ++s) {
    width += lengths.padded[s];
  }
  return width;
}

absl::Status Deal(const DealRequest& request, std::vector<RankPlan>& ranks) {
  StreamDealer dealer(request.lengths, ranks);
  const int cp_size = request.cp_size;
  for (int64_t row = 0; row < request.lengths.num_rows(); ++row) {
    const int64_t width = RowWidth(request.lengths, row);
    if (width == 0) continue;
    const int64_t chunk = width / (2 * int64_t{cp_size});
    for (int rank = 0; rank < cp_size; ++rank) dealer.Give(rank, chunk);
    for (int rank = cp_size - 1; rank >= 0; --rank) dealer.Give(rank, chunk);
  }
  return absl::OkStatus();
}

}  // namespace

const LayoutRule kHeadTailPerRowRule = {
    .layout = Layout::kHeadTailPerRow,
    .name = "HEAD_TAIL_PER_ROW",
    .parameters = {},
    .needs = Needs,
    .multiple_formula = "2 * cp_size",
    .max_cuts = MaxCuts,
    .deal = Deal,
};

}  // namespace cpfeed

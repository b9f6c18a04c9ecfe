#include "core/plan/row_permutation.h"

#include <algorithm>
#include <numeric>

namespace cpfeed {

void ComputeRowPermutation(const ShardPlan& plan, RowPermutation& order) {
  std::vector<int32_t> starts = {0};
  starts.reserve(plan.lengths.num_sequences() + 1);
  for (const int64_t slot : plan.lengths.padded) {
    starts.push_back(starts.back() + static_cast<int32_t>(slot));
  }
  int64_t num_rows = 0;
  for (const RankPlan& rank : plan.ranks) num_rows += rank.num_tokens;
  order.position_of_row.resize(num_rows);
  order.row_of_position.resize(starts.back());
  // Only the padding of a slot can be dropped.
  for (size_t s = 0; s < plan.lengths.real.size(); ++s) {
    const auto slot = order.row_of_position.begin() + starts[s];
    std::fill(slot + plan.lengths.real[s], slot + plan.lengths.padded[s], -1);
  }
  int32_t row = 0;
  for (const RankPlan& rank : plan.ranks) {
    for (const Segment& segment : rank.segments) {
      const int32_t position = starts[segment.sequence] + segment.begin;
      const auto rows = order.position_of_row.begin() + row;
      const auto positions = order.row_of_position.begin() + position;
      std::iota(rows, rows + segment.length, position);
      std::iota(positions, positions + segment.length, row);
      row += segment.length;
    }
    const auto pad = order.position_of_row.begin() + row;
    std::fill(pad, pad + rank.pad_rows, -1);
    row += static_cast<int32_t>(rank.pad_rows);
  }
}

}  // namespace cpfeed

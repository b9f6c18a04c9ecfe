#include "core/plan/stream_order.h"

#include <numeric>

namespace cpfeed {

StreamOrder ComputeStreamOrder(const ShardPlan& plan) {
  std::vector<int32_t> starts = {0};
  starts.reserve(plan.lengths.num_sequences() + 1);
  for (const int64_t slot : plan.lengths.padded) {
    starts.push_back(starts.back() + static_cast<int32_t>(slot));
  }
  int64_t num_rows = 0;
  for (const RankPlan& rank : plan.ranks) num_rows += rank.num_tokens;
  StreamOrder order;
  order.position_of_row.assign(num_rows, -1);
  order.row_of_position.assign(starts.back(), -1);
  int32_t first_row = 0;
  for (const RankPlan& rank : plan.ranks) {
    int32_t row = first_row;
    for (const Segment& segment : rank.segments) {
      const int32_t position = starts[segment.sequence] + segment.begin;
      const auto rows = order.position_of_row.begin() + row;
      const auto positions = order.row_of_position.begin() + position;
      std::iota(rows, rows + segment.length, position);
      std::iota(positions, positions + segment.length, row);
      row += segment.length;
    }
    first_row += static_cast<int32_t>(rank.num_tokens);
  }
  return order;
}

}  // namespace cpfeed

#include "core/attention/row_runs.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "core/plan/rank_plan.h"

namespace cpfeed {

std::vector<RowRun> RankRuns(const ShardPlan& plan, int cp_rank) {
  std::vector<RowRun> runs;
  int64_t row = 0;
  for (const Segment& segment : plan.ranks[cp_rank].segments) {
    const int64_t real = plan.lengths.real[segment.sequence] - segment.begin;
    const int64_t length = std::min<int64_t>(segment.length, real);
    if (length > 0) {
      runs.push_back({segment.sequence, row, segment.begin, length});
    }
    row += segment.length;
  }
  return runs;
}

StreamOrder OrderRows(absl::Span<const RowBuffer> buffers) {
  std::vector<RowRun> pieces;  // Rows are those of the buffers.
  int64_t first_row = 0;
  int64_t num_tokens = 0;
  for (const RowBuffer& buffer : buffers) {
    for (RowRun run : buffer.runs) {
      run.row += first_row;
      num_tokens += run.length;
      pieces.push_back(run);
    }
    first_row += buffer.num_rows;
  }
  std::sort(pieces.begin(), pieces.end(), [](const RowRun& a, const RowRun& b) {
    return std::tie(a.sequence, a.position) < std::tie(b.sequence, b.position);
  });
  StreamOrder order;
  order.source.resize(num_tokens);
  int64_t row = 0;
  for (const RowRun& piece : pieces) {
    std::iota(order.source.begin() + row,
              order.source.begin() + row + piece.length, piece.row);
    RowRun* const last = order.runs.empty() ? nullptr : &order.runs.back();
    if (last != nullptr && last->sequence == piece.sequence &&
        last->position + last->length == piece.position) {
      last->length += piece.length;
    } else {
      order.runs.push_back({piece.sequence, row, piece.position, piece.length});
    }
    row += piece.length;
  }
  return order;
}

}  // namespace cpfeed

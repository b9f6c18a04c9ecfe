#include "core/plan/balanced/balance.h"

#include <utility>

#include "core/plan/balanced/mul_div.h"
#include "core/plan/balanced/row_exchange.h"
#include "core/plan/balanced/window_rank.h"

namespace cpfeed {
namespace {

// Each rank a window over what the ranks before have left.
std::vector<std::vector<Slice>> BalanceByWindows(
    absl::Span<const int64_t> real, absl::Span<const int64_t> rank_rows,
    const RowCost& cost) {
  IntervalPool pool(real, cost);
  const int64_t total_rows = pool.open_rows();
  const int64_t total_cost = pool.open_cost();
  std::vector<std::vector<Slice>> ranks;
  ranks.reserve(rank_rows.size());
  int64_t rows = 0;
  int64_t placed = 0;
  for (const int64_t rank_row : rank_rows) {
    rows += rank_row;
    const int64_t aim =
        total_rows == 0 ? 0 : MulDiv(total_cost, rows, total_rows) - placed;
    RankPart rank{.rows = rank_row, .cost = aim};
    FillByWindow(pool, rank);
    placed += aim - rank.cost;
    ranks.push_back(std::move(rank.slices));
  }
  return ranks;
}

}  // namespace

std::vector<std::vector<Slice>> Balance(absl::Span<const int64_t> real,
                                        absl::Span<const int64_t> rank_rows,
                                        const RowCost& cost) {
  std::vector<std::vector<Slice>> ranks =
      BalanceByWindows(real, rank_rows, cost);
  if (!cost.is_tile()) ExchangeRows(cost, ranks);
  for (std::vector<Slice>& slices : ranks) Canonicalize(slices);
  return ranks;
}

}  // namespace cpfeed

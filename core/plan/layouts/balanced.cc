#include "core/plan/layouts/balanced.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "core/base/checked_math.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/plan/balanced/balance.h"
#include "core/plan/balanced/interval_pool.h"
#include "core/plan/balanced/row_cost.h"
#include "core/plan/balanced/row_exchange.h"

namespace cpfeed {
namespace {

constexpr int64_t kMost = std::numeric_limits<int32_t>::max();

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
     .most = kMost},
};

PadRule Needs(const LayoutSpec&, int64_t) { return {}; }

int64_t MaxCuts(const DealRequest& request) { return request.total_tokens; }

int64_t Sum(const std::vector<int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), int64_t{0});
}

// Floor or ceil of total / cp_size each; the first ranks have the more.
std::vector<int64_t> EqualShares(int64_t total, int64_t cp_size) {
  std::vector<int64_t> shares(cp_size, total / cp_size);
  for (int64_t rank = 0; rank < total % cp_size; ++rank) ++shares[rank];
  return shares;
}

void AppendSlices(const std::vector<std::vector<Slice>>& slices,
                  std::vector<RankPlan>& ranks) {
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].segments.reserve(slices[rank].size());
    for (const Slice& slice : slices[rank]) {
      ranks[rank].segments.push_back({.sequence = slice.sequence,
                                      .begin = slice.begin,
                                      .length = slice.end - slice.begin});
    }
  }
}

// Deals the padding of the slots, in stream order, so that each rank has
// `rows` in all. It has no more real rows than that.
void DealPadding(const PackedLengths& lengths, const std::vector<int64_t>& real,
                 const std::vector<int64_t>& rows,
                 std::vector<std::vector<Slice>>& slices) {
  size_t rank = 0;
  int64_t room = rows[0] - real[0];
  for (int64_t s = 0; s < lengths.num_sequences(); ++s) {
    for (int64_t begin = lengths.real[s]; begin < lengths.padded[s];) {
      while (room == 0) {
        ++rank;
        room = rows[rank] - real[rank];
      }
      const int64_t taken = std::min(room, lengths.padded[s] - begin);
      slices[rank].push_back({.sequence = static_cast<int32_t>(s),
                              .begin = static_cast<int32_t>(begin),
                              .end = static_cast<int32_t>(begin + taken)});
      begin += taken;
      room -= taken;
    }
  }
  for (std::vector<Slice>& part : slices) Canonicalize(part);
}

absl::Status Deal(const DealRequest& request, std::vector<RankPlan>& ranks) {
  const PackedLengths& lengths = request.lengths;
  const LayoutSpec& spec = request.spec;
  const int64_t total_real = Sum(lengths.real);
  const int64_t total = spec.keep_padding ? request.total_tokens : total_real;
  const std::vector<int64_t> rows = EqualShares(total, request.cp_size);
  const int64_t with_pads = RoundUp(rows[0], spec.token_multiple);
  if (spec.token_multiple > 1 && with_pads * request.cp_size > kMost) {
    return InvalidArgument(
        kBatchTooLarge,
        absl::StrCat("token_multiple is ", spec.token_multiple,
                     ", which makes ", with_pads, " rows on each of ",
                     request.cp_size, " ranks; must be at most ", kMost,
                     " in all"));
  }
  const std::vector<int64_t> real = EqualShares(total_real, request.cp_size);
  const RowCost cost(spec.objective, spec.mask, spec.linear_cost, lengths.real);
  std::vector<std::vector<Slice>> slices = Balance(lengths.real, real, cost);
  if (spec.keep_padding) DealPadding(lengths, real, rows, slices);
  AppendSlices(slices, ranks);
  if (spec.token_multiple > 1) {
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      ranks[rank].pad_rows = with_pads - rows[rank];
    }
  }
  return absl::OkStatus();
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

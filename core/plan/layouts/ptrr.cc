#include "core/plan/layouts/ptrr.h"

#include <algorithm>

#include "core/plan/layouts/block_pieces.h"
#include "core/plan/layouts/descending_order.h"
#include "core/plan/layouts/stream_dealer.h"

namespace cpfeed {
namespace {

PadRule Needs(const LayoutSpec&, int64_t cp_size) {
  return {.scope = PadRule::Scope::kChunk,
          .multiple = kPtrrBlockSize * cp_size};
}

int64_t MaxCuts(const DealRequest& request) {
  return request.total_tokens / kPtrrBlockSize;
}

absl::Status Deal(const DealRequest& request, std::vector<RankPlan>& ranks) {
  const std::vector<int64_t> costs =
      PtrrBlockCosts(request.lengths, request.total_tokens);
  StreamDealer dealer(request.lengths, ranks);
  for (const int rank : PtrrOwners(costs, request.cp_size)) {
    dealer.Give(rank, kPtrrBlockSize);
  }
  return absl::OkStatus();
}

}  // namespace

const LayoutRule kPtrrRule = {
    .layout = Layout::kPtrr,
    .name = "PTRR",
    .parameters = {},
    .needs = Needs,
    .multiple_formula = "128 * cp_size",
    .max_cuts = MaxCuts,
    .deal = Deal,
};

std::vector<int64_t> PtrrBlockCosts(const PackedLengths& lengths,
                                    int64_t total_tokens, int64_t block_size) {
  std::vector<int64_t> costs((total_tokens + block_size - 1) / block_size, 0);
  ForEachBlockPiece(lengths, block_size, [&](const BlockPiece& piece) {
    // The first sequence of a block reaches back furthest, and every block from
    // there on holds some of its tokens.
    const int64_t first_key_block = piece.slot_begin / block_size;
    costs[piece.block] =
        std::max(costs[piece.block], piece.block - first_key_block + 1);
  });
  return costs;
}

std::vector<int> PtrrOwners(absl::Span<const int64_t> costs, int cp_size) {
  std::vector<int> owners(costs.size());
  const std::vector<int32_t> order = DescendingOrder(costs);
  for (size_t i = 0; i < order.size(); ++i) {
    const bool backwards = i / cp_size % 2 == 1;
    const int column = static_cast<int>(i % cp_size);
    owners[order[i]] = backwards ? cp_size - 1 - column : column;
  }
  return owners;
}

}  // namespace cpfeed

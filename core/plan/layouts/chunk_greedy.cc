#include "core/plan/layouts/chunk_greedy.h"

#include <functional>
#include <limits>
#include <queue>
#include <utility>

#include "core/plan/layouts/block_pieces.h"
#include "core/plan/layouts/descending_order.h"
#include "core/plan/layouts/stream_dealer.h"

namespace cpfeed {
namespace {

constexpr LayoutParameter kParameters[] = {
    {.name = "chunk_size",
     .value = [](const LayoutSpec& spec) { return spec.chunk_size; },
     .least = 1,
     .most = std::numeric_limits<int32_t>::max()},
};

PadRule Needs(const LayoutSpec& spec, int64_t cp_size) {
  return {.scope = PadRule::Scope::kChunk,
          .multiple = spec.chunk_size * cp_size};
}

int64_t MaxCuts(const DealRequest& request) {
  return request.total_tokens / request.spec.chunk_size;
}

absl::Status Deal(const DealRequest& request, std::vector<RankPlan>& ranks) {
  const int64_t chunk_size = request.spec.chunk_size;
  const std::vector<int64_t> areas =
      ChunkAreas(request.lengths, request.total_tokens, chunk_size);
  StreamDealer dealer(request.lengths, ranks);
  for (const int rank : GreedyOwners(areas, request.cp_size)) {
    dealer.Give(rank, chunk_size);
  }
  return absl::OkStatus();
}

}  // namespace

const LayoutRule kChunkGreedyRule = {
    .layout = Layout::kChunkGreedy,
    .name = "CHUNK_GREEDY",
    .parameters = kParameters,
    .needs = Needs,
    .multiple_formula = "chunk_size * cp_size",
    .max_cuts = MaxCuts,
    .deal = Deal,
};

std::vector<int64_t> ChunkAreas(const PackedLengths& lengths,
                                int64_t total_tokens, int64_t chunk_size) {
  std::vector<int64_t> areas((total_tokens + chunk_size - 1) / chunk_size, 0);
  ForEachBlockPiece(lengths, chunk_size, [&](const BlockPiece& piece) {
    areas[piece.block] +=
        (piece.end - piece.begin) * (piece.begin + piece.end + 1) / 2;
  });
  return areas;
}

std::vector<int> GreedyOwners(absl::Span<const int64_t> costs, int cp_size) {
  using LoadAndRank = std::pair<int64_t, int>;
  std::priority_queue<LoadAndRank, std::vector<LoadAndRank>, std::greater<>>
      open;
  for (int rank = 0; rank < cp_size; ++rank) open.push({0, rank});
  std::vector<int64_t> room(cp_size,
                            static_cast<int64_t>(costs.size()) / cp_size);
  std::vector<int> owners(costs.size());
  for (const int32_t chunk : DescendingOrder(costs)) {
    const auto [load, rank] = open.top();
    open.pop();
    owners[chunk] = rank;
    if (--room[rank] > 0) open.push({load + costs[chunk], rank});
  }
  return owners;
}

}  // namespace cpfeed

#include "core/plan/layouts/head_tail_per_sequence.h"

namespace cpfeed {
namespace {

// A slot that is not empty, and the size of its chunks.
struct ChunkedSlot {
  int32_t sequence = 0;
  int32_t chunk = 0;
};

PadRule Needs(const LayoutSpec&, int64_t cp_size) {
  return {.scope = PadRule::Scope::kSlot, .multiple = 2 * cp_size};
}

int64_t MaxCuts(const DealRequest& request) {
  return 2 * int64_t{request.cp_size} * request.lengths.num_sequences();
}

std::vector<ChunkedSlot> CutSlots(const PackedLengths& lengths,
                                  int64_t cp_size) {
  std::vector<ChunkedSlot> slots;
  slots.reserve(lengths.padded.size());
  for (int64_t s = 0; s < lengths.num_sequences(); ++s) {
    if (lengths.padded[s] == 0) continue;
    slots.push_back(
        {.sequence = static_cast<int32_t>(s),
         .chunk = static_cast<int32_t>(lengths.padded[s] / (2 * cp_size))});
  }
  return slots;
}

// Rank by rank and not slot by slot, so that each list is written at a stretch.
absl::Status Deal(const DealRequest& request, std::vector<RankPlan>& ranks) {
  const int cp_size = request.cp_size;
  const std::vector<ChunkedSlot> slots = CutSlots(request.lengths, cp_size);
  for (int rank = 0; rank + 1 < cp_size; ++rank) {
    std::vector<Segment>& segments = ranks[rank].segments;
    segments.reserve(2 * slots.size());
    const int tail = 2 * cp_size - 1 - rank;
    for (const auto& [sequence, chunk] : slots) {
      segments.push_back({sequence, rank * chunk, chunk});
      segments.push_back({sequence, tail * chunk, chunk});
    }
  }
  // The last rank's two chunks touch.
  std::vector<Segment>& segments = ranks[cp_size - 1].segments;
  segments.reserve(slots.size());
  for (const auto& [sequence, chunk] : slots) {
    segments.push_back({sequence, (cp_size - 1) * chunk, 2 * chunk});
  }
  return absl::OkStatus();
}

}  // namespace

const LayoutRule kHeadTailPerSequenceRule = {
    .layout = Layout::kHeadTailPerSequence,
    .name = "HEAD_TAIL_PER_SEQUENCE",
    .parameters = {},
    .needs = Needs,
    .multiple_formula = "2 * cp_size",
    .max_cuts = MaxCuts,
    .deal = Deal,
};

}  // namespace cpfeed

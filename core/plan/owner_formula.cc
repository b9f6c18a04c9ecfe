#include "core/plan/owner_formula.h"

#include <algorithm>
#include <numeric>

#include "core/plan/layout_spec.h"

namespace cpfeed {

OwnerFormula::OwnerFormula(const ShardPlan& plan)
    : plan_(plan), slot_begin_(plan.lengths.padded.size() + 1, 0) {
  std::partial_sum(plan.lengths.padded.begin(), plan.lengths.padded.end(),
                   slot_begin_.begin() + 1);
}

Ownership OwnerFormula::HeadTail(int64_t begin, int64_t end,
                                 int64_t stream_position) const {
  // Divisions of 32 bits, because there is one for each segment.
  const uint32_t num_chunks = 2 * static_cast<uint32_t>(plan_.cp_size);
  const uint32_t chunk_size = static_cast<uint32_t>(end - begin) / num_chunks;
  const uint32_t chunk =
      static_cast<uint32_t>(stream_position - begin) / chunk_size;
  const uint32_t owner = std::min(chunk, num_chunks - 1 - chunk);
  return {.cp_rank = static_cast<int>(owner),
          .end = begin + (chunk + 1) * int64_t{chunk_size}};
}

std::optional<Ownership> OwnerFormula::OwnerOf(int64_t sequence,
                                               int64_t position) const {
  const int64_t slot_begin = slot_begin_[sequence];
  const int64_t slot_end = slot_begin_[sequence + 1];
  const int64_t at = slot_begin + position;
  const int64_t cp_size = plan_.cp_size;
  const int64_t total = slot_begin_.back();
  Ownership owner{.cp_rank = 0, .end = total};
  if (cp_size > 1) {
    switch (plan_.spec.layout) {
      case Layout::kContiguous:
        // The last rank whose begin, floor(rank * total / cp_size), is not
        // behind the position.
        owner.cp_rank = static_cast<int>(((at + 1) * cp_size - 1) / total);
        owner.end = (owner.cp_rank + 1) * total / cp_size;
        break;
      case Layout::kHeadTailPerRow: {
        const std::vector<int64_t>& splits = plan_.lengths.row_splits;
        const auto next =
            std::upper_bound(splits.begin(), splits.end(), sequence);
        owner = HeadTail(slot_begin_[*(next - 1)], slot_begin_[*next], at);
        break;
      }
      case Layout::kHeadTailPerSequence:
        owner = HeadTail(slot_begin, slot_end, at);
        break;
      case Layout::kStriped: {
        const int64_t stripe = at / plan_.spec.stripe_width;
        owner.cp_rank = static_cast<int>(stripe % cp_size);
        owner.end = (stripe + 1) * plan_.spec.stripe_width;
        break;
      }
      default:
        return std::nullopt;
    }
  }
  owner.end = std::min(owner.end, slot_end) - slot_begin;
  return owner;
}

}  // namespace cpfeed

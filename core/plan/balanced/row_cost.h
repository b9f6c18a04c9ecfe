// What the rows of a sequence cost, as the balanced planner counts.

#ifndef CPFEED_CORE_PLAN_BALANCED_ROW_COST_H_
#define CPFEED_CORE_PLAN_BALANCED_ROW_COST_H_

#include <cstdint>

#include "absl/types/span.h"
#include "core/plan/attention_work.h"
#include "core/plan/layout_spec.h"
#include "core/plan/visible_keys.h"

namespace cpfeed {

// All costs are integers, in query-key pairs; a tile is kTileSize^2 of them.
// Sums over a plan stay below 2^63 for plans of less than 2^31 tokens.
class RowCost {
 public:
  // `real` are the lengths of the sequences; they outlive this. `objective` is
  // resolved, linear_cost below 2^30.
  RowCost(Objective objective, const VisibleKeys& mask, int64_t linear_cost,
          absl::Span<const int64_t> real)
      : tile_(objective == Objective::kTile),
        causal_(mask.is_causal()),
        mask_(mask),
        linear_cost_(linear_cost),
        real_(real) {}

  // Of the rows [begin, end) of a sequence, inside its real tokens. Under the
  // area objective it is additive.
  int64_t Of(int32_t sequence, int64_t begin, int64_t end) const {
    const int64_t linear = linear_cost_ * (end - begin);
    if (!causal_) return linear + Masked(sequence, begin, end);
    if (tile_) return linear + kTilePairs * CountTiles(begin, end);
    return linear + (end - begin) * (begin + end + 1) / 2;
  }

  // At least the cost of any one row.
  int64_t Heaviest() const;

  // Orders open rows [begin, end) of sequences from light to heavy.
  int64_t Order(int32_t sequence, int64_t end) const {
    return mask_.right < 0 ? real_[sequence] : end;
  }

  bool is_tile() const { return tile_; }
  bool is_causal() const { return causal_; }

  static constexpr int64_t kTilePairs = kTileSize * kTileSize;

 private:
  int64_t Masked(int32_t sequence, int64_t begin, int64_t end) const;

  bool tile_;
  bool causal_;
  VisibleKeys mask_;
  int64_t linear_cost_;
  absl::Span<const int64_t> real_;
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_BALANCED_ROW_COST_H_

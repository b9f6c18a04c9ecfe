#include "core/plan/balanced/row_cost.h"

#include <algorithm>

#include "core/plan/attention_work.h"

namespace cpfeed {
int64_t RowCost::Masked(int32_t sequence, int64_t begin, int64_t end) const {
  const int64_t real = real_[sequence];
  if (tile_) return kTilePairs * CountTiles(begin, end, real, mask_);
  return CountPairs(begin, end, real, mask_);
}

int64_t RowCost::Heaviest() const {
  if (real_.empty()) return linear_cost_;
  const int64_t longest = *std::max_element(real_.begin(), real_.end());
  if (tile_) {
    return linear_cost_ + (longest + kTileSize - 1) / kTileSize * kTilePairs;
  }
  if (mask_.left < 0 || mask_.right < 0) return linear_cost_ + longest;
  return linear_cost_ + std::min(longest, mask_.left + mask_.right + 1);
}

}  // namespace cpfeed

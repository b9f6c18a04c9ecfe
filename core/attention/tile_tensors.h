// The rows of tiles as the tensors that a kernel takes.

#ifndef CPFEED_CORE_ATTENTION_TILE_TENSORS_H_
#define CPFEED_CORE_ATTENTION_TILE_TENSORS_H_

#include <ATen/core/Tensor.h>

#include <optional>

#include "core/attention/tile_batch.h"
#include "core/attention/tile_plan.h"

namespace cpfeed {

// Which side of its tiles a tensor's rows are.
enum class TileSide { kQueries, kKeys };

// The tiles' rows of `tensor` [rows, heads, dim], contiguous, as [tiles,
// padded_rows, heads, dim]: a view of a lone tile, else a copy with zeros
// behind each tile.
at::Tensor GatherTiles(const at::Tensor& tensor, const TileBatch& batch,
                       TileSide side);

// The reverse: adds `tiles` [tiles, padded_rows, heads, dim] to the tiles' rows
// of `into` [rows, heads, dim].
void AddTiles(const at::Tensor& tiles, const TileBatch& batch, TileSide side,
              const at::Tensor& into);

// The keys that row `row` of the tile sees, counted from the tile's first. Of a
// causal tile all of them: the kernel masks it.
KeyRange VisibleKeys(const TilePlan& plan, const Tile& tile, int64_t row);

// The additive mask of bands and of padded full tiles, [tiles, 1, q_rows,
// k_rows], or none where the kernel needs none.
std::optional<at::Tensor> TileMask(const TilePlan& plan, const TileBatch& batch,
                                   at::ScalarType dtype);

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_TILE_TENSORS_H_

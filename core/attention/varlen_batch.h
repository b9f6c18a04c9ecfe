// Tiles laid behind each other for kernels that take sequences of any length.

#ifndef CPFEED_CORE_ATTENTION_VARLEN_BATCH_H_
#define CPFEED_CORE_ATTENTION_VARLEN_BATCH_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "core/attention/tile_plan.h"

namespace cpfeed {

// The tiles of one kernel call: packed rows splits[i] to splits[i + 1] belong
// to tile i. Of the tiles of a batch no two share a query row or a key row, so
// that results may be added up in any order.
struct VarlenBatch {
  Tile::Kind kind = Tile::Kind::kFull;
  std::vector<Tile> tiles;
  std::vector<int32_t> q_splits = {0};  // [tiles + 1]
  std::vector<int32_t> k_splits = {0};
  int64_t max_q = 0;  // Longest tile.
  int64_t max_k = 0;

  int64_t num_q() const { return q_splits.back(); }
  int64_t num_k() const { return k_splits.back(); }
};

// All tiles of the plan, each in one batch. Tiles of a batch are of one kind
// and of similar lengths, and at most 32768: what a kernel's grid takes. Of
// these there are as few batches as come out when each tile, in the plan's
// order, goes into the first where it may. Tiles of kind kBand are alone. The
// order is a function of the plan.
//
// Example: two causal tiles of different sequences are one batch; two full
// tiles with the same queries are two.
std::vector<VarlenBatch> VarlenBatches(const TilePlan& plan);

// Which rows the packed query (or key) rows are, in order.
std::vector<int64_t> QueryRows(const VarlenBatch& batch);
std::vector<int64_t> KeyRows(const VarlenBatch& batch);

// The first of `rows` where each is one more than that before it, else nothing.
std::optional<int64_t> FirstOfRun(const std::vector<int64_t>& rows);

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_VARLEN_BATCH_H_

// Cuts masked attention between two sets of rows into rectangles that a dense
// kernel can compute.
//
// Pure integer arithmetic on shared metadata. The queries are a rank's rows,
// the keys those of any rank or of the whole stream: each exchange asks for the
// tiles of what it has just received.

#ifndef CPFEED_CORE_ATTENTION_TILE_PLAN_H_
#define CPFEED_CORE_ATTENTION_TILE_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/attention/attention_mask.h"
#include "core/attention/row_runs.h"

namespace cpfeed {

// Key rows [begin, end) of a tile, counted from its first; empty if equal.
struct KeyRange {
  int32_t begin = 0;
  int32_t end = 0;

  friend bool operator==(const KeyRange&, const KeyRange&) = default;
};

// Query rows [q_row, q_row + q_rows) against key rows [k_row, k_row + k_rows),
// all of one sequence.
struct Tile {
  enum class Kind {
    kFull,    // Every query sees every key.
    kCausal,  // Query i sees keys 0 .. i; as many keys as queries.
    kBand,    // Query i sees the keys in TilePlan::bounds[first_bound + i].
  };
  Kind kind = Kind::kFull;
  int64_t q_row = 0;
  int64_t q_rows = 0;
  int64_t k_row = 0;
  int64_t k_rows = 0;
  int64_t first_bound = 0;  // kBand only.

  friend bool operator==(const Tile&, const Tile&) = default;
};

struct TilePlan {
  std::vector<Tile> tiles;
  std::vector<KeyRange> bounds;
};

// Tiles that together hold each pair of a query and a key that it sees exactly
// once, and no other pair. A query row may be in several tiles.
//
// Inside a sequence positions ascend on both sides, so what a query sees is one
// range of key rows, and both its ends only move forward from row to row. Rows
// whose range stays, or grows by one key a row, become full and causal tiles;
// anything else (sliding windows, ragged stripes) becomes bands.
//
// Example: head-tail with 2 ranks, one sequence of 8, causal. Rank 0 holds
// positions 0 1 6 7, rank 1 holds 2 3 4 5.
//   queries of rank 0, keys of rank 0: one causal tile of 4 x 4
//   queries of rank 0, keys of rank 1: one full tile, query rows 2 and 3
//     against all keys
//   queries of rank 1, keys of rank 0: one full tile, all queries against key
//     rows 0 and 1
TilePlan PlanTiles(absl::Span<const RowRun> queries,
                   absl::Span<const RowRun> keys, const AttentionMask& mask);

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_TILE_PLAN_H_

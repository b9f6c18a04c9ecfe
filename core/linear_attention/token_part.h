// What one rank holds where linear attention needs tokens in their order.
//
// A recurrence cannot be computed over shards that are balanced for attention.
// The real tokens of the stream, without padding, are laid behind each other
// and cut into contiguous parts: with R of them rank r gets
// [floor(r * R / cp_size), floor((r + 1) * R / cp_size)).

#ifndef CPFEED_CORE_LINEAR_ATTENTION_TOKEN_PART_H_
#define CPFEED_CORE_LINEAR_ATTENTION_TOKEN_PART_H_

#include <cstdint>
#include <vector>

#include "core/batch/packed_lengths.h"
#include "core/plan/shard_plan.h"

namespace cpfeed {

// Tokens of one sequence inside a part: its rows [row, row + length).
struct SequenceRun {
  int32_t sequence = 0;
  int64_t row = 0;
  int64_t length = 0;   // At least 1.
  bool begins = false;  // The first is the sequence's first token.
  bool ends = false;    // The last is its last real token.

  friend bool operator==(const SequenceRun&, const SequenceRun&) = default;
};

struct TokenPart {
  int64_t begin = 0;  // Real tokens before it.
  int64_t num_tokens = 0;
  std::vector<SequenceRun> runs;  // By ascending row; they cover every row.

  int64_t end() const { return begin + num_tokens; }
};

// Example: real lengths 5, 0, 3 and 2 ranks. Rank 1 has tokens [4, 8):
//   run (sequence 0, row 0, length 1, ends) and (sequence 2, row 1, length 3,
//   begins and ends)
TokenPart PartOf(const PackedLengths& lengths, int cp_size, int cp_rank);

// What others need to know of a rank's part.
struct PartOutline {
  int64_t begin = 0;  // Real tokens before it.
  int64_t num_tokens = 0;
  // Real tokens before the sequence of its first token; `begin` where that
  // sequence begins with it, and where the part is empty.
  int64_t first_sequence_begin = 0;
  bool has_begin = false;  // A sequence begins in it.

  int64_t end() const { return begin + num_tokens; }

  friend bool operator==(const PartOutline&, const PartOutline&) = default;
};

// Of every rank's part, [cp_size]. Linear in sequences and ranks.
std::vector<PartOutline> OutlineParts(const PackedLengths& lengths,
                                      int cp_size);

// How the rows of a shard get to parts. Both orders are of ascending tokens for
// one peer, so that the two ends agree.
struct RowMoves {
  std::vector<int64_t> send_rows;       // Of the shard, peer after peer.
  std::vector<int64_t> send_counts;     // [cp_size]
  std::vector<int64_t> receive_rows;    // Of the part, peer after peer.
  std::vector<int64_t> receive_counts;  // [cp_size]
};

// Linear in the plan's segments and the rank's rows. For one sequence without
// padding whose length 2 * cp_size divides, in HEAD_TAIL layouts, no rank has
// more than two peers each way, itself included.
RowMoves MovesToParts(const ShardPlan& plan, int cp_rank);

}  // namespace cpfeed

#endif  // CPFEED_CORE_LINEAR_ATTENTION_TOKEN_PART_H_

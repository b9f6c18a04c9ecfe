// The stream cut into blocks of one size, regardless of sequences.

#ifndef CPFEED_CORE_PLAN_LAYOUTS_BLOCK_PIECES_H_
#define CPFEED_CORE_PLAN_LAYOUTS_BLOCK_PIECES_H_

#include <algorithm>
#include <cstdint>

#include "core/batch/packed_lengths.h"

namespace cpfeed {

// The real tokens [begin, end) of one sequence that lie in one block.
struct BlockPiece {
  int64_t block = 0;       // Holds stream positions from block * block_size on.
  int64_t slot_begin = 0;  // Stream position of the sequence's first token.
  int64_t begin = 0;       // Counted from slot_begin.
  int64_t end = 0;
};

// Calls visit(BlockPiece) for every piece that is not empty, in stream order.
template <class Visit>
void ForEachBlockPiece(const PackedLengths& lengths, int64_t block_size,
                       Visit visit) {
  int64_t slot_begin = 0;
  for (int64_t s = 0; s < lengths.num_sequences(); ++s) {
    int64_t begin = 0;
    int64_t block = slot_begin / block_size;
    while (begin < lengths.real[s]) {
      const int64_t block_end = (block + 1) * block_size - slot_begin;
      const int64_t end = std::min(lengths.real[s], block_end);
      visit(BlockPiece{block, slot_begin, begin, end});
      begin = end;
      ++block;
    }
    slot_begin += lengths.padded[s];
  }
}

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_LAYOUTS_BLOCK_PIECES_H_

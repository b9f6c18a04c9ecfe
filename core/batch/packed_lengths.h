// Where the sequences of packed rows lie.

#ifndef CPFEED_CORE_BATCH_PACKED_LENGTHS_H_
#define CPFEED_CORE_BATCH_PACKED_LENGTHS_H_

#include <cstdint>
#include <vector>

namespace cpfeed {

// The sequences of some rows, in stream order (row after row). A sequence
// occupies a slot of `padded` positions, of which the first `real` hold its
// tokens and the rest is tail padding. All lengths are in tokens and >= 0.
//
// Example: two rows of 8 positions, [a a a . b b b b | c c c c c . . .]
//   real = {3, 4, 5}, padded = {4, 4, 8}, row_splits = {0, 2, 3}
struct PackedLengths {
  std::vector<int64_t> real;    // [num_sequences]
  std::vector<int64_t> padded;  // [num_sequences], real[i] <= padded[i]
  // [num_rows + 1]: row i holds the sequences [row_splits[i],
  // row_splits[i + 1]).
  std::vector<int64_t> row_splits;

  int64_t num_sequences() const { return static_cast<int64_t>(real.size()); }
  int64_t num_rows() const {
    return static_cast<int64_t>(row_splits.size()) - 1;
  }
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_BATCH_PACKED_LENGTHS_H_

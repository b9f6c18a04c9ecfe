// Random batches of every kind that is valid.

#ifndef CPFEED_TESTS_TESTING_RANDOM_BATCHES_H_
#define CPFEED_TESTS_TESTING_RANDOM_BATCHES_H_

#include <cstdint>
#include <random>

#include "core/batch/packed_batch.h"

namespace cpfeed::testing {

// What the batch must keep.
struct BatchShape {
  int64_t num_rows = 1;
  int64_t most_width = 64;     // S is at most about this.
  int64_t slot_multiple = 1;   // Of every slot.
  int64_t width_multiple = 1;  // Of S; a multiple of slot_multiple.
  bool fill = false;           // Rows may be left for auto_fill to fill.
};

// A batch that ValidateBatch takes (with auto_fill where `fill` is set). Random
// are the lengths (or none), dtypes, labels to ignore, position_ids of one or
// three components or none, embeddings in place of ids, extra tensors with
// axes before and behind the token axes, and where the bytes are cut, which may
// be inside an element.
PackedBatch RandomBatch(const BatchShape& shape, std::mt19937_64& random);

// A tensor of random bytes, bool ones of 0 and 1, in pieces.
Tensor RandomTensor(DType dtype, Shape shape, std::mt19937_64& random);

}  // namespace cpfeed::testing

#endif  // CPFEED_TESTS_TESTING_RANDOM_BATCHES_H_

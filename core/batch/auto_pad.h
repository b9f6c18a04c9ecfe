// Makes slots divisible by letting them grow at their tails.

#ifndef CPFEED_CORE_BATCH_AUTO_PAD_H_
#define CPFEED_CORE_BATCH_AUTO_PAD_H_

#include <cstdint>

#include "absl/status/status.h"
#include "core/batch/packed_batch.h"
#include "core/batch/packed_lengths.h"

namespace cpfeed {

// Grows slots of `lengths` until `rule` holds; real lengths stay.
//   kSlot   each slot grows to a multiple; a slot of 0 stays 0
//   kRow    the last slot of each row grows until the row's sum is a multiple
//   kChunk  the last slot of each chunk, until the chunk's sum is one
// Every row has a slot. Chunks are `rows_per_chunk` consecutive rows.
//
// Example: padded = {3, 8, 5}, one row, multiple 4
//   kSlot -> {4, 8, 8}    kRow, kChunk -> {3, 8, 5} (sums to 16)
//
// Errors:
//   INVALID_ARGUMENT  BATCH_TOO_LARGE: a chunk grows to 2^31 positions or more.
absl::Status AutoPad(const PadRule& rule, int64_t rows_per_chunk,
                     PackedLengths& lengths);

}  // namespace cpfeed

#endif  // CPFEED_CORE_BATCH_AUTO_PAD_H_

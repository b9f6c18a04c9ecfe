// Batches of packed documents, such as training sees.

#ifndef CPFEED_TESTS_BENCH_DOCUMENT_BATCH_H_
#define CPFEED_TESTS_BENCH_DOCUMENT_BATCH_H_

#include <cstdint>

#include "core/batch/packed_batch.h"

namespace cpfeed::bench {

// One row of `num_tokens` positions: int64 input_ids, labels and position_ids.
// Documents have 1 to 2 * mean_length - 1 tokens, uniformly; their slots are
// padded to a multiple of `multiple`, which divides num_tokens. The last slot
// takes what is left. Equal arguments give equal batches.
PackedBatch MakeDocumentBatch(int64_t num_tokens, int64_t mean_length,
                              int64_t multiple);

}  // namespace cpfeed::bench

#endif  // CPFEED_TESTS_BENCH_DOCUMENT_BATCH_H_

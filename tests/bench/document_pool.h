// Documents in memory, for a loader whose disk is not to be measured.

#ifndef CPFEED_TESTS_BENCH_DOCUMENT_POOL_H_
#define CPFEED_TESTS_BENCH_DOCUMENT_POOL_H_

#include <cstdint>
#include <memory>

#include "client/documents/document_store.h"

namespace cpfeed::bench {

// `count` documents of lognormal length (sigma 1, at most `max_tokens`) with
// this mean before the cut; their tokens are windows of a pool of random ones.
// The same in each run.
std::unique_ptr<DocumentStore> MakeDocumentPool(int64_t count,
                                                int64_t mean_tokens,
                                                int64_t max_tokens);

}  // namespace cpfeed::bench

#endif  // CPFEED_TESTS_BENCH_DOCUMENT_POOL_H_

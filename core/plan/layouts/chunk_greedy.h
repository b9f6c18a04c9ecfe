// CHUNK_GREEDY: the stream in chunks of chunk_size tokens, heaviest first to
// the least loaded rank that still has room. Every rank gets as many chunks as
// any other.

#ifndef CPFEED_CORE_PLAN_LAYOUTS_CHUNK_GREEDY_H_
#define CPFEED_CORE_PLAN_LAYOUTS_CHUNK_GREEDY_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/batch/packed_lengths.h"
#include "core/plan/layouts/layout_rule.h"

namespace cpfeed {

extern const LayoutRule kChunkGreedyRule;

// The causal area of each chunk: the sum over its real tokens of their position
// in their sequence + 1. Shape [ceil(total_tokens / chunk_size)].
std::vector<int64_t> ChunkAreas(const PackedLengths& lengths,
                                int64_t total_tokens, int64_t chunk_size);

// The rank of each chunk. In order of descending cost, ties to the lower chunk,
// each goes to the rank with the least sum of costs, ties to the lower rank,
// among those with fewer than costs.size() / cp_size chunks. costs.size() is a
// multiple of cp_size.
//
// Example: costs {1, 2, 3, 4}, cp_size 2: {0, 1, 1, 0}
std::vector<int> GreedyOwners(absl::Span<const int64_t> costs, int cp_size);

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_LAYOUTS_CHUNK_GREEDY_H_

// PTRR: blocks of 128 query rows, sorted by their cost in key blocks and dealt
// to the ranks in rounds, every other one backwards (PyTorch's
// processing-time based round robin).

#ifndef CPFEED_CORE_PLAN_LAYOUTS_PTRR_H_
#define CPFEED_CORE_PLAN_LAYOUTS_PTRR_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/batch/packed_lengths.h"
#include "core/plan/layouts/layout_rule.h"

namespace cpfeed {

extern const LayoutRule kPtrrRule;

inline constexpr int64_t kPtrrBlockSize = 128;

// For each block of query rows the number of key blocks of which it sees a real
// token under the causal mask inside each sequence. Blocks are counted on the
// stream, so one block may hold several sequences. Shape
// [ceil(total_tokens / block_size)].
std::vector<int64_t> PtrrBlockCosts(const PackedLengths& lengths,
                                    int64_t total_tokens,
                                    int64_t block_size = kPtrrBlockSize);

// The rank of each block: blocks by descending cost, ties to the lower block,
// cp_size a round; odd rounds go from the last rank to the first. costs.size()
// is a multiple of cp_size.
//
// Example: costs {1, 2, 3, 4, 5, 6, 7, 8}, cp_size 2:
//   rounds {7 6} {4 5} {3 2} {0 1}, so rank 0 has blocks 0, 3, 4, 7
std::vector<int> PtrrOwners(absl::Span<const int64_t> costs, int cp_size);

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_LAYOUTS_PTRR_H_

// Upstream's arithmetic on sequence lengths.
//
// Lengths come as they were sent: they may be negative or not add up, which
// CheckParityRules refuses after upstream had its chance to raise. Nothing here
// breaks over them.

#ifndef CPFEED_CORE_THD_PARITY_LENGTHS_H_
#define CPFEED_CORE_THD_PARITY_LENGTHS_H_

#include <cstdint>
#include <vector>

namespace cpfeed {

// [0, l0, l0 + l1, ...]; sums that do not fit wrap around.
std::vector<int32_t> PrefixSums32(const std::vector<int64_t>& lengths);

// Where the two arrays differ at most in their last entry and cu_seqlens ends
// before num_tokens, both end at num_tokens afterwards: padding behind the last
// sequence becomes part of it.
//
// Example: num_tokens 8, {0, 3, 5} and {0, 3, 8} become {0, 3, 8}; {0, 2, 5}
// and {0, 3, 8} stay.
void AbsorbTail(int64_t num_tokens, std::vector<int32_t>& cu_seqlens,
                std::vector<int32_t>& cu_seqlens_padded);

// The largest difference of neighbours. `cu_seqlens` has at least two entries.
int32_t WidestStep(const std::vector<int32_t>& cu_seqlens);

// [num_tokens], 1 behind the real length in each slot and behind the last
// slot, else 0.
std::vector<uint8_t> LayoutMask(int64_t num_tokens,
                                const std::vector<int64_t>& real,
                                const std::vector<int64_t>& padded);

}  // namespace cpfeed

#endif  // CPFEED_CORE_THD_PARITY_LENGTHS_H_

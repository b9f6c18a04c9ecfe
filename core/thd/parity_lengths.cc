#include "core/thd/parity_lengths.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace cpfeed {

std::vector<int32_t> PrefixSums32(const std::vector<int64_t>& lengths) {
  std::vector<int32_t> sums = {0};
  sums.reserve(lengths.size() + 1);
  uint64_t sum = 0;  // Unsigned: may wrap where a signed sum must not.
  for (const int64_t length : lengths) {
    sum += static_cast<uint64_t>(length);
    sums.push_back(static_cast<int32_t>(sum));
  }
  return sums;
}

void AbsorbTail(int64_t num_tokens, std::vector<int32_t>& cu_seqlens,
                std::vector<int32_t>& cu_seqlens_padded) {
  if (cu_seqlens.size() != cu_seqlens_padded.size() || cu_seqlens.size() < 2 ||
      cu_seqlens.back() >= num_tokens ||
      !std::equal(cu_seqlens.begin(), cu_seqlens.end() - 1,
                  cu_seqlens_padded.begin())) {
    return;
  }
  cu_seqlens.back() = static_cast<int32_t>(num_tokens);
  cu_seqlens_padded = cu_seqlens;
}

int32_t WidestStep(const std::vector<int32_t>& cu_seqlens) {
  int64_t widest = std::numeric_limits<int32_t>::min();
  for (size_t i = 1; i < cu_seqlens.size(); ++i) {
    widest = std::max(widest, int64_t{cu_seqlens[i]} - cu_seqlens[i - 1]);
  }
  return static_cast<int32_t>(widest);
}

std::vector<uint8_t> LayoutMask(int64_t num_tokens,
                                const std::vector<int64_t>& real,
                                const std::vector<int64_t>& padded) {
  std::vector<uint8_t> mask(num_tokens, 1);
  int64_t begin = 0;
  for (size_t i = 0; i < std::min(real.size(), padded.size()); ++i) {
    const int64_t slot = std::clamp<int64_t>(padded[i], 0, num_tokens - begin);
    std::fill_n(mask.begin() + begin, std::clamp<int64_t>(real[i], 0, slot),
                uint8_t{0});
    begin += slot;
  }
  return mask;
}

}  // namespace cpfeed

// Which keys a query sees inside its sequence.

#ifndef CPFEED_CORE_ATTENTION_ATTENTION_MASK_H_
#define CPFEED_CORE_ATTENTION_ATTENTION_MASK_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace cpfeed {

// The query at position p of a sequence sees the keys at positions
// p - left .. p + right of the same sequence; -1 is unbounded. Padding is never
// seen, whatever the mask.
struct AttentionMask {
  int64_t left = -1;
  int64_t right = 0;

  static AttentionMask Causal() { return {.left = -1, .right = 0}; }
  static AttentionMask Full() { return {.left = -1, .right = -1}; }
  // With right = 0 a causal sliding window.
  static AttentionMask Window(int64_t left, int64_t right) {
    return {.left = left, .right = right};
  }

  // Neither causal nor full: some far keys are out of sight.
  bool is_window() const { return left >= 0 || right > 0; }

  friend bool operator==(const AttentionMask&, const AttentionMask&) = default;
};

// "causal", "full" or "window(left 3, right 0)".
std::string MaskName(const AttentionMask& mask);

// Errors:
//   INVALID_ARGUMENT  A side is below -1.
absl::Status ValidateMask(const AttentionMask& mask);

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_ATTENTION_MASK_H_

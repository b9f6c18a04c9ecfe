// A causal depthwise convolution on one rank's part, as plain loops.
//
//   y[t][c] = sum over j < width of weight[c][width - 1 - j] * x[t - j][c]
//
// over the tokens of t's own sequence; taps before its begin are 0. The oldest
// tap comes first, as in torch's conv1d with padding on the left.

#ifndef CPFEED_CORE_LINEAR_ATTENTION_CONV_KERNEL_H_
#define CPFEED_CORE_LINEAR_ATTENTION_CONV_KERNEL_H_

#include <cstdint>
#include <vector>

#include "core/linear_attention/token_part.h"

namespace cpfeed {

// Tokens [begin, end) of the stream.
struct TokenRange {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end > begin ? end - begin : 0; }
};

// The tokens before the part that its convolution reads: the last width - 1, or
// fewer where its first sequence begins after them. They may lie in several
// parts.
TokenRange HaloOf(const PartOutline& part, int64_t width);

// `x` has the halo's rows and then the part's, [halo + T, channels]; `weight`
// [channels, width]; writes y [T, channels].
template <class T>
void ConvForward(const TokenPart& part, int64_t halo, int64_t channels,
                 int64_t width, const T* x, const T* weight, T* y);

// Adds the gradients to dx [halo + T, channels] and dweight [channels, width].
template <class T>
void ConvBackward(const TokenPart& part, int64_t halo, int64_t channels,
                  int64_t width, const T* x, const T* weight, const T* dy,
                  T* dx, T* dweight);

}  // namespace cpfeed

#endif  // CPFEED_CORE_LINEAR_ATTENTION_CONV_KERNEL_H_

// Merges attention over parts of the keys into attention over all of them.

#ifndef CPFEED_CORE_ATTENTION_MERGE_H_
#define CPFEED_CORE_ATTENTION_MERGE_H_

#include <cstdint>

namespace cpfeed {

// Merges a partial result into the running one, in place:
//
//   m    = max(lse, part_lse)
//   w    = exp(lse - m),  w_p = exp(part_lse - m)
//   out' = (w * out + w_p * part_out) / (w + w_p)
//   lse' = m + log(w + w_p)
//
// Shapes, row-major: out and part_out [rows, heads, head_dim]; lse and part_lse
// [rows, heads], natural logarithm. T is float or double. `out` starts as zeros
// and `lse` as -inf.
//
// Where a row of the part saw no key (part_lse is -inf) the running result
// stays as it is, whatever part_out holds there: no -inf - -inf, no NaN.
//
// Example: (out 1, lse 0) with (3, ln 3) gives (2.5, ln 4).
template <class T>
void MergePart(int64_t rows, int64_t heads, int64_t head_dim, const T* part_out,
               const T* part_lse, T* out, T* lse);

extern template void MergePart<float>(int64_t, int64_t, int64_t, const float*,
                                      const float*, float*, float*);
extern template void MergePart<double>(int64_t, int64_t, int64_t, const double*,
                                       const double*, double*, double*);

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_MERGE_H_

#include "core/attention/merge.h"

#include <cmath>
#include <limits>

namespace cpfeed {

template <class T>
void MergePart(int64_t rows, int64_t heads, int64_t head_dim, const T* part_out,
               const T* part_lse, T* out, T* lse) {
  constexpr T kNoKeys = -std::numeric_limits<T>::infinity();
  for (int64_t i = 0; i < rows * heads; ++i) {
    if (part_lse[i] == kNoKeys) continue;
    // A NaN on either side stays a NaN.
    const T most = lse[i] > part_lse[i] ? lse[i] : part_lse[i];
    const T weight = std::exp(lse[i] - most);
    const T part_weight = std::exp(part_lse[i] - most);
    const T sum = weight + part_weight;
    const T keep = weight / sum;
    const T take = part_weight / sum;
    T* const row = out + i * head_dim;
    const T* const part_row = part_out + i * head_dim;
    for (int64_t d = 0; d < head_dim; ++d) {
      row[d] = keep * row[d] + take * part_row[d];
    }
    lse[i] = most + std::log(sum);
  }
}

template void MergePart<float>(int64_t, int64_t, int64_t, const float*,
                               const float*, float*, float*);
template void MergePart<double>(int64_t, int64_t, int64_t, const double*,
                                const double*, double*, double*);

}  // namespace cpfeed

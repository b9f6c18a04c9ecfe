#include "core/linear_attention/conv_kernel.h"

#include <algorithm>

namespace cpfeed {
namespace {

// Calls visit(y_row, x_row, tap) for each row of the part and each tap inside
// its sequence.
template <class Visit>
void VisitTaps(const TokenPart& part, int64_t halo, int64_t width,
               Visit visit) {
  for (const SequenceRun& run : part.runs) {
    // The halo belongs to the first sequence, if that goes on from before.
    const int64_t first = run.begins ? halo + run.row : 0;
    for (int64_t t = run.row; t < run.row + run.length; ++t) {
      for (int64_t j = 0; j < width && halo + t - j >= first; ++j) {
        visit(t, halo + t - j, width - 1 - j);
      }
    }
  }
}

// [width, channels], so that inner loops run over channels.
template <class T>
std::vector<T> Transposed(const T* weight, int64_t channels, int64_t width) {
  std::vector<T> taps(channels * width);
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t j = 0; j < width; ++j) {
      taps[j * channels + c] = weight[c * width + j];
    }
  }
  return taps;
}

}  // namespace

TokenRange HaloOf(const PartOutline& part, int64_t width) {
  return {std::max(part.first_sequence_begin, part.begin - (width - 1)),
          part.begin};
}

template <class T>
void ConvForward(const TokenPart& part, int64_t halo, int64_t channels,
                 int64_t width, const T* x, const T* weight, T* y) {
  const std::vector<T> taps = Transposed(weight, channels, width);
  std::fill_n(y, part.num_tokens * channels, T(0));
  VisitTaps(part, halo, width, [&](int64_t t, int64_t from, int64_t tap) {
    T* const out = y + t * channels;
    const T* const in = x + from * channels;
    const T* const w = taps.data() + tap * channels;
    for (int64_t c = 0; c < channels; ++c) out[c] += w[c] * in[c];
  });
}

template <class T>
void ConvBackward(const TokenPart& part, int64_t halo, int64_t channels,
                  int64_t width, const T* x, const T* weight, const T* dy,
                  T* dx, T* dweight) {
  const std::vector<T> taps = Transposed(weight, channels, width);
  std::vector<T> dtaps(channels * width, T(0));
  VisitTaps(part, halo, width, [&](int64_t t, int64_t from, int64_t tap) {
    const T* const dout = dy + t * channels;
    const T* const in = x + from * channels;
    T* const din = dx + from * channels;
    const T* const w = taps.data() + tap * channels;
    T* const dw = dtaps.data() + tap * channels;
    for (int64_t c = 0; c < channels; ++c) {
      din[c] += w[c] * dout[c];
      dw[c] += in[c] * dout[c];
    }
  });
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t j = 0; j < width; ++j) {
      dweight[c * width + j] += dtaps[j * channels + c];
    }
  }
}

template void ConvForward<float>(const TokenPart&, int64_t, int64_t, int64_t,
                                 const float*, const float*, float*);
template void ConvForward<double>(const TokenPart&, int64_t, int64_t, int64_t,
                                  const double*, const double*, double*);
template void ConvBackward<float>(const TokenPart&, int64_t, int64_t, int64_t,
                                  const float*, const float*, const float*,
                                  float*, float*);
template void ConvBackward<double>(const TokenPart&, int64_t, int64_t, int64_t,
                                   const double*, const double*, const double*,
                                   double*, double*);

}  // namespace cpfeed

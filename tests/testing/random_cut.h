// Bytes as they arrive from a network: cut anywhere.

#ifndef CPFEED_TESTS_TESTING_RANDOM_CUT_H_
#define CPFEED_TESTS_TESTING_RANDOM_CUT_H_

#include <algorithm>
#include <cstdint>
#include <random>

#include "core/tensor/buffer.h"

namespace cpfeed::testing {

// The same bytes in fragments of 1 to `most` bytes, each in memory of its own,
// so that a read behind a fragment's end is seen by AddressSanitizer.
inline Buffer RandomlyCut(const Buffer& bytes, int64_t most,
                          std::mt19937_64& random) {
  Buffer cut;
  for (int64_t at = 0; at < bytes.size();) {
    const int64_t size =
        std::min(std::uniform_int_distribution<int64_t>(1, most)(random),
                 bytes.size() - at);
    auto [fragment, data] = Buffer::Allocate(size);
    bytes.Slice(at, size).CopyTo(data);
    cut.Append(fragment);
    at += size;
  }
  return cut;
}

}  // namespace cpfeed::testing

#endif  // CPFEED_TESTS_TESTING_RANDOM_CUT_H_

// A shuffled order that needs no memory.

#ifndef CPFEED_CLIENT_DOCUMENTS_PERMUTATION_H_
#define CPFEED_CLIENT_DOCUMENTS_PERMUTATION_H_

#include <array>
#include <cstdint>

namespace cpfeed {

// A pseudo-random permutation of [0, size), the same for the same seed on
// every machine: a Feistel network over the next power of four, walked until
// it comes back into the range. Any place of it is computed in constant time on
// average, so a reader can start in the middle.
class Permutation {
 public:
  // `size` is at least 1.
  Permutation(int64_t size, uint64_t seed);

  // What is at place `position` of the order; `position` is in [0, size).
  int64_t At(int64_t position) const;

 private:
  static constexpr int kRounds = 6;

  uint64_t Encrypt(uint64_t value) const;

  uint64_t size_;
  int half_bits_;
  std::array<uint64_t, kRounds> keys_;
};

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_DOCUMENTS_PERMUTATION_H_

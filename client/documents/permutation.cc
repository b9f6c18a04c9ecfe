#include "client/documents/permutation.h"

#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): every input bit
// changes every output bit with probability about 1/2.
uint64_t Mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

}  // namespace

Permutation::Permutation(int64_t size, uint64_t seed)
    : size_(static_cast<uint64_t>(size)) {
  CF_CHECK(size >= 1);
  // Halves of few bits have few round functions and shuffle badly; a longer
  // walk for small sizes costs nothing that matters.
  half_bits_ = 6;
  while (half_bits_ < 32 && (uint64_t{1} << (2 * half_bits_)) < size_) {
    ++half_bits_;
  }
  for (uint64_t& key : keys_) key = seed = Mix(seed);
}

uint64_t Permutation::Encrypt(uint64_t value) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = value >> half_bits_, right = value & mask;
  for (const uint64_t key : keys_) {
    const uint64_t next = left ^ (Mix(right ^ key) & mask);
    left = right;
    right = next;
  }
  return (left << half_bits_) | right;
}

int64_t Permutation::At(int64_t position) const {
  CF_CHECK(position >= 0 && static_cast<uint64_t>(position) < size_);
  uint64_t value = Encrypt(static_cast<uint64_t>(position));
  while (value >= size_) value = Encrypt(value);
  return static_cast<int64_t>(value);
}

}  // namespace cpfeed

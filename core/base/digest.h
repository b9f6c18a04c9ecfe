// XXH3-64 digests, for checksums of tensors and for plan digests.

#ifndef CPFEED_CORE_BASE_DIGEST_H_
#define CPFEED_CORE_BASE_DIGEST_H_

#include <cstdint>
#include <memory>

#include "absl/types/span.h"

namespace cpfeed {

// XXH3-64 of `size` bytes at `data`.
uint64_t Digest(const void* data, int64_t size);

// The same over pieces: the digest depends on the bytes alone, not on how they
// were cut. Not thread-safe.
class DigestBuilder {
 public:
  DigestBuilder();
  ~DigestBuilder();
  DigestBuilder(const DigestBuilder&) = delete;
  DigestBuilder& operator=(const DigestBuilder&) = delete;

  void Update(const void* data, int64_t size);

  // The numbers as little-endian int64.
  void UpdateInt64(absl::Span<const int64_t> values);

  // The digest of all that was given until now.
  uint64_t Finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_BASE_DIGEST_H_

// Bytes in reference-counted fragments, so that a payload that arrived in
// pieces, or a shard that is cut out of one, needs no copy.

#ifndef CPFEED_CORE_TENSOR_BUFFER_H_
#define CPFEED_CORE_TENSOR_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace cpfeed {

// An immutable sequence of bytes. Copies share the fragments; a fragment is
// freed when the last buffer that refers to it is gone. Distinct buffers may
// be used by different threads, also where they share fragments.
class Buffer {
 public:
  struct Fragment {
    std::shared_ptr<const void> owner;  // Keeps `data` alive; may be null.
    const std::byte* data = nullptr;
    int64_t size = 0;
  };

  Buffer() = default;

  // Refers to `size` bytes at `data`, which live as long as `owner`.
  static Buffer Wrap(std::shared_ptr<const void> owner, const void* data,
                     int64_t size);

  // Takes over the vector; its elements are plain data.
  template <class T>
  static Buffer FromVector(std::vector<T> values) {
    auto owner = std::make_shared<const std::vector<T>>(std::move(values));
    return Wrap(owner, owner->data(),
                static_cast<int64_t>(owner->size() * sizeof(T)));
  }

  // A copy of `size` bytes at `data`.
  static Buffer CopyOf(const void* data, int64_t size);

  // One fragment of `size` uninitialised bytes, aligned to 64, and the address
  // to fill them through before the buffer is shared.
  static std::pair<Buffer, std::byte*> Allocate(int64_t size);

  int64_t size() const { return size_; }
  absl::Span<const Fragment> fragments() const { return fragments_; }

  // Adds fragments at the end; empty ones are left out.
  void Append(Fragment fragment);
  void Append(const Buffer& other);

  // Bytes [offset, offset + size), sharing the fragments. The range must lie
  // inside.
  Buffer Slice(int64_t offset, int64_t size) const;

  // Writes all bytes to `out`.
  void CopyTo(void* out) const;

  // Writes bytes [offset, offset + size) to `out`. The range must lie inside.
  void CopyRange(int64_t offset, int64_t size, void* out) const;

  // Itself where it is one fragment (or none) aligned to `alignment`, else a
  // copy that is.
  Buffer Contiguous(int64_t alignment = 16) const;

  // The bytes of a buffer of at most one fragment; null where it is empty.
  const std::byte* data() const;

  // XXH3-64 of the bytes, however they are cut.
  uint64_t Checksum() const;

 private:
  // Calls use(fragment, data, size) for each piece of [offset, offset + size).
  template <class Use>
  void ForEachPiece(int64_t offset, int64_t size, Use use) const;

  std::vector<Fragment> fragments_;
  std::vector<int64_t> ends_;  // Offset behind each fragment.
  int64_t size_ = 0;
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_TENSOR_BUFFER_H_

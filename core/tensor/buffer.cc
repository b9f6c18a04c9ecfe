#include "core/tensor/buffer.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "core/base/digest.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

constexpr int64_t kAlignment = 64;

std::shared_ptr<std::byte> AllocateAligned(int64_t size) {
  auto* bytes = static_cast<std::byte*>(
      ::operator new(static_cast<size_t>(size), std::align_val_t(kAlignment)));
  return std::shared_ptr<std::byte>(bytes, [](std::byte* p) {
    ::operator delete(p, std::align_val_t(kAlignment));
  });
}

}  // namespace

Buffer Buffer::Wrap(std::shared_ptr<const void> owner, const void* data,
                    int64_t size) {
  Buffer buffer;
  buffer.Append(Fragment{.owner = std::move(owner),
                         .data = static_cast<const std::byte*>(data),
                         .size = size});
  return buffer;
}

Buffer Buffer::CopyOf(const void* data, int64_t size) {
  auto [buffer, bytes] = Allocate(size);
  if (size > 0) std::memcpy(bytes, data, static_cast<size_t>(size));
  return buffer;
}

std::pair<Buffer, std::byte*> Buffer::Allocate(int64_t size) {
  CF_CHECK(size >= 0);
  if (size == 0) return {Buffer(), nullptr};
  std::shared_ptr<std::byte> bytes = AllocateAligned(size);
  std::byte* const data = bytes.get();
  return {Wrap(std::move(bytes), data, size), data};
}

void Buffer::Append(Fragment fragment) {
  if (fragment.size == 0) return;
  size_ += fragment.size;
  ends_.push_back(size_);
  fragments_.push_back(std::move(fragment));
}

void Buffer::Append(const Buffer& other) {
  fragments_.reserve(fragments_.size() + other.fragments_.size());
  for (const Fragment& fragment : other.fragments_) Append(fragment);
}

template <class Use>
void Buffer::ForEachPiece(int64_t offset, int64_t size, Use use) const {
  CF_CHECK(offset >= 0 && size >= 0 && offset <= size_ - size);
  size_t i =
      std::upper_bound(ends_.begin(), ends_.end(), offset) - ends_.begin();
  while (size > 0) {
    const Fragment& whole = fragments_[i];
    const int64_t skipped = offset - (ends_[i] - whole.size);
    const int64_t taken = std::min(size, whole.size - skipped);
    use(whole, whole.data + skipped, taken);
    offset += taken;
    size -= taken;
    ++i;
  }
}

Buffer Buffer::Slice(int64_t offset, int64_t size) const {
  Buffer slice;
  ForEachPiece(
      offset, size,
      [&](const Fragment& whole, const std::byte* data, int64_t taken) {
        slice.Append(
            Fragment{.owner = whole.owner, .data = data, .size = taken});
      });
  return slice;
}

void Buffer::CopyRange(int64_t offset, int64_t size, void* out) const {
  auto* to = static_cast<std::byte*>(out);
  ForEachPiece(offset, size,
               [&](const Fragment&, const std::byte* data, int64_t taken) {
                 std::memcpy(to, data, static_cast<size_t>(taken));
                 to += taken;
               });
}

void Buffer::CopyTo(void* out) const {
  auto* to = static_cast<std::byte*>(out);
  for (const Fragment& fragment : fragments_) {
    std::memcpy(to, fragment.data, static_cast<size_t>(fragment.size));
    to += fragment.size;
  }
}

Buffer Buffer::Contiguous(int64_t alignment) const {
  const bool aligned =
      fragments_.empty() ||
      reinterpret_cast<uintptr_t>(fragments_[0].data) % alignment == 0;
  if (fragments_.size() <= 1 && aligned) return *this;
  auto [copy, bytes] = Allocate(size_);
  CopyTo(bytes);
  return copy;
}

const std::byte* Buffer::data() const {
  CF_CHECK(fragments_.size() <= 1);
  return fragments_.empty() ? nullptr : fragments_[0].data;
}

uint64_t Buffer::Checksum() const {
  if (fragments_.size() <= 1) return Digest(data(), size_);
  DigestBuilder digest;
  for (const Fragment& fragment : fragments_) {
    digest.Update(fragment.data, fragment.size);
  }
  return digest.Finish();
}

}  // namespace cpfeed

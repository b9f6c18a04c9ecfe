#include "core/shard/gather.h"

#include <algorithm>
#include <cstring>

#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

// Walks forward through a buffer's fragments. Reads ascend, so finding the
// fragment of the next run is mostly no step at all.
class FragmentCursor {
 public:
  explicit FragmentCursor(const Buffer& buffer)
      : fragments_(buffer.fragments()) {}

  // The address of [offset, offset + size) if it lies in one fragment, else
  // null.
  const std::byte* Find(int64_t offset, int64_t size) {
    Seek(offset);
    const int64_t skipped = offset - begin_;
    const Buffer::Fragment& fragment = fragments_[i_];
    return skipped + size <= fragment.size ? fragment.data + skipped : nullptr;
  }

  // Copies [offset, offset + size) piece by piece.
  void Copy(int64_t offset, int64_t size, std::byte* out) {
    while (size > 0) {
      Seek(offset);
      const Buffer::Fragment& fragment = fragments_[i_];
      const int64_t skipped = offset - begin_;
      const int64_t taken = std::min(size, fragment.size - skipped);
      std::memcpy(out, fragment.data + skipped, static_cast<size_t>(taken));
      out += taken;
      offset += taken;
      size -= taken;
    }
  }

 private:
  void Seek(int64_t offset) {
    if (offset < begin_) {
      i_ = 0;
      begin_ = 0;
    }
    while (offset - begin_ >= fragments_[i_].size) {
      begin_ += fragments_[i_].size;
      ++i_;
    }
  }

  absl::Span<const Buffer::Fragment> fragments_;
  size_t i_ = 0;
  int64_t begin_ = 0;  // Offset of fragment i_.
};

// Short runs are most of them at large cp_size; a call of memcpy each would
// cost more than the copy.
inline void CopyShort(const std::byte* from, int64_t size, std::byte* to) {
  if (size >= 16) {
    int64_t i = 0;
    for (; i + 16 <= size; i += 16) std::memcpy(to + i, from + i, 16);
    std::memcpy(to + size - 16, from + size - 16, 16);
  } else if (size >= 8) {
    std::memcpy(to, from, 8);
    std::memcpy(to + size - 8, from + size - 8, 8);
  } else {
    for (int64_t i = 0; i < size; ++i) to[i] = from[i];
  }
}

constexpr int64_t kShortBytes = 128;

template <class T>
void FillWith(int64_t value, int64_t count, std::byte* out) {
  std::fill_n(reinterpret_cast<T*>(out), count, static_cast<T>(value));
}

template <class T>
void Count(int64_t value, int64_t count, int64_t stride_bytes, std::byte* out) {
  for (int64_t i = 0; i < count; ++i) {
    const T element = static_cast<T>(value + i);
    std::memcpy(out + i * stride_bytes, &element, sizeof(T));
  }
}

template <class T>
int64_t Load(const std::byte* from) {
  T element;
  std::memcpy(&element, from, sizeof(T));
  return static_cast<int64_t>(element);
}

}  // namespace

void GatherRows(const Buffer& source, int64_t source_offset, int64_t row_bytes,
                absl::Span<const CopyRun> runs, std::byte* out) {
  FragmentCursor cursor(source);
  for (const CopyRun& run : runs) {
    const int64_t offset = source_offset + run.source * row_bytes;
    const int64_t size = run.length * row_bytes;
    if (size == 0) continue;
    std::byte* const to = out + run.row * row_bytes;
    if (const std::byte* from = cursor.Find(offset, size)) {
      if (size <= kShortBytes) {
        CopyShort(from, size, to);
      } else {
        std::memcpy(to, from, static_cast<size_t>(size));
      }
    } else {
      cursor.Copy(offset, size, to);
    }
  }
}

Buffer SliceRows(const Buffer& source, int64_t source_offset, int64_t row_bytes,
                 absl::Span<const CopyRun> runs) {
  Buffer rows;
  for (const CopyRun& run : runs) {
    rows.Append(source.Slice(source_offset + run.source * row_bytes,
                             run.length * row_bytes));
  }
  return rows;
}

void FillElements(DType dtype, int64_t value, int64_t count, std::byte* out) {
  switch (ItemSize(dtype)) {
    case 1:
      return FillWith<int8_t>(value, count, out);
    case 2:
      return FillWith<int16_t>(value, count, out);
    case 4:
      return FillWith<int32_t>(value, count, out);
    case 8:
      return FillWith<int64_t>(value, count, out);
    default:
      CF_CHECK(false);
  }
}

void FillCounting(DType dtype, int64_t value, int64_t count,
                  int64_t stride_bytes, std::byte* out) {
  switch (ItemSize(dtype)) {
    case 1:
      return Count<int8_t>(value, count, stride_bytes, out);
    case 2:
      return Count<int16_t>(value, count, stride_bytes, out);
    case 4:
      return Count<int32_t>(value, count, stride_bytes, out);
    case 8:
      return Count<int64_t>(value, count, stride_bytes, out);
    default:
      CF_CHECK(false);
  }
}

int64_t ReadElement(const Buffer& source, int64_t offset, DType dtype) {
  std::byte bytes[8];
  source.CopyRange(offset, ItemSize(dtype), bytes);
  switch (ItemSize(dtype)) {
    case 1:
      return dtype == DType::kInt8 ? Load<int8_t>(bytes) : Load<uint8_t>(bytes);
    case 2:
      return Load<int16_t>(bytes);
    case 4:
      return Load<int32_t>(bytes);
    default:
      return Load<int64_t>(bytes);
  }
}

}  // namespace cpfeed

#include "core/shard/scatter.h"

#include <algorithm>
#include <cstring>

#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

// Walks through a buffer's fragments. Reads mostly ascend, so that the fragment
// of the next run is mostly the one of the last.
class FragmentCursor {
 public:
  explicit FragmentCursor(const Buffer& buffer)
      : fragments_(buffer.fragments()) {
    if (!fragments_.empty()) Enter(0, 0);
  }

  // The address of [offset, offset + size) if it lies in one fragment, else
  // null. `size` is positive.
  const std::byte* Find(int64_t offset, int64_t size) {
    if (offset < begin_ || offset >= end_) Seek(offset);
    return offset + size <= end_ ? data_ + (offset - begin_) : nullptr;
  }

  // Copies [offset, offset + size) piece by piece.
  void Copy(int64_t offset, int64_t size, std::byte* out) {
    while (size > 0) {
      Seek(offset);
      const int64_t taken = std::min(size, end_ - offset);
      std::memcpy(out, data_ + (offset - begin_), static_cast<size_t>(taken));
      out += taken;
      offset += taken;
      size -= taken;
    }
  }

 private:
  void Seek(int64_t offset) {
    while (offset < begin_) Enter(i_ - 1, begin_ - fragments_[i_ - 1].size);
    while (offset >= end_) Enter(i_ + 1, end_);
  }

  void Enter(size_t i, int64_t begin) {
    i_ = i;
    data_ = fragments_[i].data;
    begin_ = begin;
    end_ = begin + fragments_[i].size;
  }

  absl::Span<const Buffer::Fragment> fragments_;
  // The fragment last used: its bytes are [begin_, end_) of the buffer.
  size_t i_ = 0;
  const std::byte* data_ = nullptr;
  int64_t begin_ = 0;
  int64_t end_ = 0;
};

// Copies n to 2 * n bytes as two pieces that overlap. Their size is known to
// the compiler, so there is no loop to mispredict.
template <size_t n>
inline void CopyEnds(const std::byte* from, int64_t size, std::byte* to) {
  std::byte head[n];
  std::byte tail[n];
  std::memcpy(head, from, n);
  std::memcpy(tail, from + size - n, n);
  std::memcpy(to, head, n);
  std::memcpy(to + size - n, tail, n);
}

constexpr int64_t kShortBytes = 128;

// Most runs are short at large cp_size; a call of memcpy each would cost more
// than the copy.
inline void CopyBytes(const std::byte* from, int64_t size, std::byte* to) {
  if (size > kShortBytes) {
    std::memcpy(to, from, static_cast<size_t>(size));
  } else if (size > 64) {
    CopyEnds<64>(from, size, to);
  } else if (size > 32) {
    CopyEnds<32>(from, size, to);
  } else if (size >= 16) {
    CopyEnds<16>(from, size, to);
  } else if (size >= 8) {
    CopyEnds<8>(from, size, to);
  } else {
    for (int64_t i = 0; i < size; ++i) to[i] = from[i];
  }
}

// How far ahead of a rank's last row its memory is asked for. A processor
// follows a few streams of writes by itself, not one for each of 64 ranks.
constexpr int64_t kPrefetchBytes = 512;

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

void ScatterRows(const Buffer& source, int64_t source_offset, int64_t row_bytes,
                 absl::Span<const RankCopy> copies,
                 absl::Span<std::byte* const> outs) {
  if (row_bytes == 0) return;
  FragmentCursor cursor(source);
  for (const RankCopy& copy : copies) {
    std::byte* const out = outs[copy.rank];
    if (out == nullptr || copy.length == 0) continue;
    const int64_t offset = source_offset + copy.source * row_bytes;
    const int64_t size = copy.length * row_bytes;
    std::byte* const to = out + copy.row * row_bytes;
    __builtin_prefetch(to + kPrefetchBytes, /*rw=*/1);
    if (const std::byte* from = cursor.Find(offset, size)) {
      CopyBytes(from, size, to);
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

// The sharding kernel: what one thread does. For device and host.

#ifndef CPFEED_CORE_SHARD_CUDA_SHARD_THREAD_H_
#define CPFEED_CORE_SHARD_CUDA_SHARD_THREAD_H_

#include <cstdint>

#include "core/base/kernel_macros.h"
#include "core/shard/cuda/shard_task.h"

#ifndef __CUDACC__
#include <cstring>

#include "core/base/status_macros.h"
#endif

namespace cpfeed {
namespace shard_thread {

// 16 bytes, little-endian.
struct alignas(16) Word {
  uint64_t low = 0;
  uint64_t high = 0;
};

CF_HOST_DEVICE inline uint64_t Address(const void* p) {
  return reinterpret_cast<uint64_t>(p);
}

// An aligned access. On the host misalignment, which faults on a GPU, is found
// by a check.
template <class T>
CF_HOST_DEVICE inline T Load(const unsigned char* from) {
#ifdef __CUDACC__
  return *reinterpret_cast<const T*>(from);
#else
  CF_CHECK(Address(from) % alignof(T) == 0);
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
#endif
}

template <class T>
CF_HOST_DEVICE inline void Store(T value, unsigned char* to) {
#ifdef __CUDACC__
  *reinterpret_cast<T*>(to) = value;
#else
  CF_CHECK(Address(to) % alignof(T) == 0);
  std::memcpy(to, &value, sizeof(T));
#endif
}

CF_HOST_DEVICE inline uint64_t LoadElement(const unsigned char* from,
                                           int32_t item_bytes) {
  switch (item_bytes) {
    case 1:
      return Load<uint8_t>(from);
    case 2:
      return Load<uint16_t>(from);
    case 4:
      return Load<uint32_t>(from);
    default:
      return Load<uint64_t>(from);
  }
}

CF_HOST_DEVICE inline void StoreElement(uint64_t value, int32_t item_bytes,
                                        unsigned char* to) {
  switch (item_bytes) {
    case 1:
      return Store(static_cast<uint8_t>(value), to);
    case 2:
      return Store(static_cast<uint16_t>(value), to);
    case 4:
      return Store(static_cast<uint32_t>(value), to);
    default:
      return Store(value, to);
  }
}

// Eight bytes in pieces of T.
template <class T>
CF_HOST_DEVICE inline uint64_t LoadHalf(const unsigned char* from) {
  uint64_t half = 0;
  for (int i = 0; i < static_cast<int>(8 / sizeof(T)); ++i) {
    half |= static_cast<uint64_t>(Load<T>(from + i * sizeof(T)))
            << (8 * sizeof(T) * i);
  }
  return half;
}

// 16 bytes from any address, in the widest pieces that it allows.
CF_HOST_DEVICE inline Word LoadWord(const unsigned char* from) {
  const uint64_t address = Address(from);
  if (address % 16 == 0) return Load<Word>(from);
  if (address % 8 == 0) {
    return {LoadHalf<uint64_t>(from), LoadHalf<uint64_t>(from + 8)};
  }
  if (address % 4 == 0) {
    return {LoadHalf<uint32_t>(from), LoadHalf<uint32_t>(from + 8)};
  }
  if (address % 2 == 0) {
    return {LoadHalf<uint16_t>(from), LoadHalf<uint16_t>(from + 8)};
  }
  return {LoadHalf<uint8_t>(from), LoadHalf<uint8_t>(from + 8)};
}

// Puts an element into bytes [offset, offset + item_bytes) of `word`, which are
// zeros.
CF_HOST_DEVICE inline void Put(uint64_t value, int32_t item_bytes,
                               int32_t offset, Word& word) {
  const uint64_t mask = ~uint64_t{0} >> (64 - 8 * item_bytes);
  const uint64_t bits = (value & mask) << (8 * (offset % 8));
  if (offset < 8) {
    word.low |= bits;
  } else {
    word.high |= bits;
  }
}

// The last of the tile's segments that begins at or before `row`.
CF_HOST_DEVICE inline int32_t FindSegment(const ShardSegment* segments,
                                          const ShardTile& tile, int32_t row) {
  int32_t first = tile.first_segment;
  int32_t count = tile.num_segments;
  while (count > 1) {
    const int32_t half = count / 2;
    if (segments[first + half].row <= row) {
      first += half;
      count -= half;
    } else {
      count = half;
    }
  }
  return first;
}

// How many of the segment's rows come from the input; they are its first.
CF_HOST_DEVICE inline int32_t RowsOfInput(const ShardSegment& segment) {
  const int32_t rows = segment.input - segment.begin;
  if (segment.begin < 0 || rows < 0) return 0;
  return rows < segment.length ? rows : segment.length;
}

// The address of the byte in the input. Of inserted rows it is none.
CF_HOST_DEVICE inline const unsigned char* Source(const ShardJob& job,
                                                  const unsigned char* plane,
                                                  const ShardSegment& segment,
                                                  int32_t row, int32_t column) {
  const int64_t token =
      int64_t{segment.source} + segment.begin + (row - segment.row);
  return plane + token * job.row_bytes + column;
}

// The value of the slot's last position that came from the input, and on from
// there; positions of a slot of which nothing came count from 0.
CF_HOST_DEVICE inline uint64_t Continued(const ShardJob& job,
                                         const unsigned char* plane,
                                         const ShardSegment& segment,
                                         int32_t row, int32_t column) {
  const int64_t position = int64_t{segment.begin} + (row - segment.row);
  if (segment.input == 0) return static_cast<uint64_t>(position);
  const int64_t last = int64_t{segment.source} + segment.input - 1;
  return LoadElement(plane + last * job.row_bytes + column, job.item_bytes) +
         static_cast<uint64_t>(position - segment.input + 1);
}

CF_HOST_DEVICE inline uint64_t Element(const ShardJob& job,
                                       const unsigned char* plane,
                                       const ShardSegment& segment, int32_t row,
                                       int32_t column) {
  const bool placed = segment.begin >= 0;
  const int64_t position = int64_t{segment.begin} + (row - segment.row);
  switch (job.kind) {
    case ShardJobKind::kPositions:
      return placed ? static_cast<uint64_t>(position) : 0;
    case ShardJobKind::kPaddingMask:
      return !placed || position >= segment.real ? 1 : 0;
    default:
      break;
  }
  if (placed && position < segment.input) {
    return LoadElement(Source(job, plane, segment, row, column),
                       job.item_bytes);
  }
  if (job.kind == ShardJobKind::kCopy) return static_cast<uint64_t>(job.fill);
  return placed ? Continued(job, plane, segment, row, column) : 0;
}

// Bytes [begin, end) of the tile, which lie in one aligned word of the output.
CF_HOST_DEVICE inline void WriteWord(const ShardTask& task, const ShardJob& job,
                                     const ShardTile& tile, int32_t begin,
                                     int32_t end, unsigned char* out) {
  const unsigned char* const plane =
      job.source + tile.plane * job.source_plane_bytes;
  int32_t row = tile.row + (tile.column + begin) / job.row_bytes;
  int32_t column = (tile.column + begin) % job.row_bytes;
  int32_t index = FindSegment(task.segments, tile, row);
  ShardSegment segment = task.segments[index];
  const bool whole = end - begin == kShardWordBytes;
  if (whole && (job.kind == ShardJobKind::kCopy ||
                job.kind == ShardJobKind::kContinue)) {
    const int64_t rows = int64_t{segment.row} + RowsOfInput(segment) - row;
    if (rows * job.row_bytes - column >= kShardWordBytes) {
      Store(LoadWord(Source(job, plane, segment, row, column)), out + begin);
      return;
    }
  }
  Word word;
  for (int32_t at = begin; at < end; at += job.item_bytes) {
    while (row >= segment.row + segment.length) {
      segment = task.segments[++index];
    }
    const uint64_t value = Element(job, plane, segment, row, column);
    if (whole) {
      Put(value, job.item_bytes, at - begin, word);
    } else {
      StoreElement(value, job.item_bytes, out + at);
    }
    column += job.item_bytes;
    if (column == job.row_bytes) {
      column = 0;
      ++row;
    }
  }
  if (whole) Store(word, out + begin);
}

}  // namespace shard_thread

// What thread `thread` of `num_threads` does of tile `tile_number`.
CF_HOST_DEVICE inline void RunShardThread(const ShardTask& task,
                                          int32_t tile_number, int thread,
                                          int num_threads) {
  const ShardTile tile = task.tiles[tile_number];
  const ShardJob job = task.jobs[tile.job];
  unsigned char* const out = job.out + tile.plane * job.out_plane_bytes +
                             int64_t{tile.row} * job.row_bytes + tile.column;
  // Words are aligned in the output; the first and the last may be parts.
  const int32_t head =
      static_cast<int32_t>(shard_thread::Address(out) % kShardWordBytes);
  const int32_t words =
      (head + tile.bytes + kShardWordBytes - 1) / kShardWordBytes;
  for (int32_t word = thread; word < words; word += num_threads) {
    const int32_t first = word * kShardWordBytes - head;
    const int32_t last = first + kShardWordBytes;
    shard_thread::WriteWord(task, job, tile, first > 0 ? first : 0,
                            last < tile.bytes ? last : tile.bytes, out);
  }
}

}  // namespace cpfeed

#endif  // CPFEED_CORE_SHARD_CUDA_SHARD_THREAD_H_

// The work of the sharding kernel, as plain data that the device reads.
//
// A task is a list of tiles: pieces of one tensor of one rank's shard. A block
// of threads writes one tile. Where the bytes come from follows from the
// segments of the rank's plan; there is nothing per token.

#ifndef CPFEED_CORE_SHARD_CUDA_SHARD_TASK_H_
#define CPFEED_CORE_SHARD_CUDA_SHARD_TASK_H_

#include <cstdint>

namespace cpfeed {

// Local rows [row, row + length) are the positions [begin, begin + length) of a
// slot. Of that slot the first `real` positions are real and the first `input`
// come from the batch, from token `source` of its stream on. Rows that no
// position fills have begin -1.
struct ShardSegment {
  int32_t row = 0;
  int32_t length = 0;
  int32_t begin = 0;
  int32_t real = 0;
  int32_t input = 0;
  int32_t source = 0;
};

enum class ShardJobKind : int32_t {
  kCopy,         // From the input; `fill` where rows were inserted.
  kContinue,     // From the input; inserted rows go on counting.
  kPositions,    // int64: the position in the slot.
  kPaddingMask,  // bool: whether it is behind the real length.
};

// One tensor of one rank's shard of one chunk, [planes, rows, row_bytes].
// Addresses are the device's and aligned to item_bytes.
struct ShardJob {
  const unsigned char* source = nullptr;  // Token 0 of plane 0.
  unsigned char* out = nullptr;           // Row 0 of plane 0.
  int64_t source_plane_bytes = 0;
  int64_t out_plane_bytes = 0;
  int64_t fill = 0;  // Its low item_bytes bytes.
  int32_t row_bytes = 0;
  int32_t item_bytes = 0;  // 1, 2, 4 or 8; divides row_bytes.
  ShardJobKind kind = ShardJobKind::kCopy;
  int32_t unused = 0;
};

// `bytes` bytes of one plane of a job's output, from byte `column` of row `row`
// on. segments [first_segment, first_segment + num_segments) have its rows.
struct ShardTile {
  int32_t job = 0;
  int32_t plane = 0;
  int32_t row = 0;
  int32_t column = 0;
  int32_t bytes = 0;
  int32_t first_segment = 0;
  int32_t num_segments = 0;
};

// What a launch is given. Device addresses.
struct ShardTask {
  const ShardSegment* segments = nullptr;
  const ShardJob* jobs = nullptr;
  const ShardTile* tiles = nullptr;
  int32_t num_tiles = 0;
};

// Threads of a block. With tiles of kShardTileBytes each writes four words.
inline constexpr int kShardThreads = 256;
inline constexpr int32_t kShardWordBytes = 16;
inline constexpr int32_t kShardTileBytes = 4 * kShardThreads * kShardWordBytes;

}  // namespace cpfeed

#endif  // CPFEED_CORE_SHARD_CUDA_SHARD_TASK_H_

// Names of the tensors that describe a shard (see ShardHeader in
// cpfeed/v1/shard.proto).

#ifndef CPFEED_CORE_WIRE_SHARD_TENSORS_H_
#define CPFEED_CORE_WIRE_SHARD_TENSORS_H_

#include "core/wire/tensor_codec.h"

namespace cpfeed {

inline constexpr char kCuSeqlens[] = "cu_seqlens";
inline constexpr char kCuSeqlensPadded[] = "cu_seqlens_padded";
inline constexpr char kSequencesPerRow[] = "sequences_per_row";
inline constexpr char kSourceLengths[] = "source_lengths";
inline constexpr char kSegments[] = "segments";
inline constexpr char kLocalCuSeqlens[] = "local_cu_seqlens";
inline constexpr char kLocalCuSeqlensPadded[] = "local_cu_seqlens_padded";
inline constexpr char kIndex[] = "index";

// The most tensors of a shard: those of a batch, generated ones (position_ids,
// padding_mask), and its description.
inline constexpr int kMaxShardTensors = kMaxTensors + 16;

}  // namespace cpfeed

#endif  // CPFEED_CORE_WIRE_SHARD_TENSORS_H_

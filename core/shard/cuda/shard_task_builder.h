// Turns plans into the tiles of the sharding kernel. Plain C++: no CUDA.

#ifndef CPFEED_CORE_SHARD_CUDA_SHARD_TASK_BUILDER_H_
#define CPFEED_CORE_SHARD_CUDA_SHARD_TASK_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/plan/rank_plan.h"
#include "core/shard/cuda/shard_task.h"
#include "core/thd/thd_batch.h"

namespace cpfeed {

// Bytes of the tensor with `rows` token rows (all axes, the outer ones too).
// The batch has passed validation, so nothing overflows.
int64_t TokenTensorBytes(const ThdTensor& tensor, int64_t rows);

// Collects the work of one launch: any number of ranks' shards.
class ShardTaskBuilder {
 public:
  // `batch` outlives the builder.
  explicit ShardTaskBuilder(const ThdBatch& batch) : batch_(batch) {}

  // Adds one rank's shard of `chunk`, a chunk of the batch. `sources` and
  // `outs` are device addresses, one for each tensor of the batch: of the
  // batch's own bytes, contiguous (not read where the tensor is generated), and
  // of TokenTensorBytes(tensor, plan.num_tokens) bytes of room. A tensor whose
  // out is null is left out.
  //
  // Errors:
  //   INVALID_ARGUMENT   An address is not aligned to the tensor's elements.
  //   RESOURCE_EXHAUSTED A row or the whole task is too large for one launch
  //                      (reason NOT_SUPPORTED).
  absl::Status AddShard(const ThdChunk& chunk, const RankPlan& plan,
                        absl::Span<const void* const> sources,
                        absl::Span<void* const> outs);

  // What the device is to be given: segments, jobs and tiles behind each other,
  // each part aligned to 16.
  int64_t DescriptorBytes() const;

  // Writes DescriptorBytes() bytes to `to` and returns the task as it is where
  // the device finds them at `device`. Both are aligned to 16.
  ShardTask Write(std::byte* to, const void* device) const;

  // Bytes of the jobs' outputs.
  int64_t out_bytes() const { return out_bytes_; }
  absl::Span<const ShardTile> tiles() const { return tiles_; }
  absl::Span<const ShardSegment> segments() const { return segments_; }

 private:
  void AddSegments(const ThdChunk& chunk, const RankPlan& plan);
  absl::Status AddJob(const ThdTensor& tensor, int64_t rows,
                      int32_t first_segment, const void* source, void* out);
  void AddTiles(const ShardJob& job, int64_t planes, int32_t first_segment);

  const ThdBatch& batch_;
  std::vector<ShardSegment> segments_;
  std::vector<ShardJob> jobs_;
  std::vector<ShardTile> tiles_;
  int64_t out_bytes_ = 0;
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_SHARD_CUDA_SHARD_TASK_BUILDER_H_

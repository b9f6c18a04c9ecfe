// Rows on their way between shards and contiguous parts. Differentiable: each
// way is the other's backward pass.

#ifndef CPFEED_CORE_LINEAR_ATTENTION_PART_ROWS_H_
#define CPFEED_CORE_LINEAR_ATTENTION_PART_ROWS_H_

#include <ATen/core/Tensor.h>

#include <memory>

#include "core/linear_attention/part_group.h"

namespace cpfeed {

// [rows of this rank's shard, ...] to [tokens of its part, ...], in stream
// order; rows of padding stay behind. One all-to-all, in the tensor's dtype.
// Throws StatusException with the group's error, or INVALID_ARGUMENT where the
// tensor has another number of rows than the shard.
at::Tensor ShardToPart(const at::Tensor& shard,
                       std::shared_ptr<const PartGroup> group);

// The way back; rows of padding are 0.
at::Tensor PartToShard(const at::Tensor& part,
                       std::shared_ptr<const PartGroup> group);

}  // namespace cpfeed

#endif  // CPFEED_CORE_LINEAR_ATTENTION_PART_ROWS_H_

// Shards the obvious way: the padded stream is made, token by token, and rows
// are picked out of it by their index.

#ifndef CPFEED_TESTS_CORE_SHARD_SHARD_REFERENCE_H_
#define CPFEED_TESTS_CORE_SHARD_SHARD_REFERENCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan/shard_plan.h"
#include "core/thd/thd_batch.h"

namespace cpfeed::testing {

// The bytes of `tensor` in a chunk's padded stream, position by position, for
// each plane of the outer dimensions: [outer][total_tokens].
using Stream = std::vector<std::vector<std::string>>;
Stream PaddedStream(const ThdBatch& batch, const ThdChunk& chunk,
                    const ThdTensor& tensor);

// For each position of the padded stream its position in the chunk's input, -1
// where it was inserted.
std::vector<int32_t> SourceOfStream(const ThdChunk& chunk);

// A rank's rows of the tensor, plane after plane.
std::string ShardBytes(const ThdBatch& batch, const ThdTensor& tensor,
                       const Stream& stream, const ShardPlan& plan,
                       int cp_rank);

}  // namespace cpfeed::testing

#endif  // CPFEED_TESTS_CORE_SHARD_SHARD_REFERENCE_H_

// Rows between a padded stream and the shards that ranks hold of it.

#ifndef CPFEED_CLIENT_WORKER_STREAM_ROWS_H_
#define CPFEED_CLIENT_WORKER_STREAM_ROWS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/tensor/dtype.h"

namespace cpfeed {

// LibTorch's name of a dtype that ranks compute with.
//
// Errors:
//   UNIMPLEMENTED  It is not float64, float32 or bfloat16 (reason
//                  NOT_SUPPORTED).
absl::StatusOr<at::ScalarType> ComputeTypeOf(DType dtype);

// The numbers as a tensor of that shape, float64; valid as long as they.
at::Tensor ViewOf(const std::vector<double>& values,
                  const std::vector<int64_t>& shape);

// The rows of a shard, [index.size(), ...], by its LocalIndex; 0 where the
// stream has none. `stream` is float64.
at::Tensor ShardRows(const at::Tensor& stream,
                     const std::vector<int32_t>& index, at::ScalarType type);

// The reverse: puts the shard's rows at their places of `stream`.
void PutShardRows(const at::Tensor& shard, const std::vector<int32_t>& index,
                  std::vector<double>& stream);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_STREAM_ROWS_H_

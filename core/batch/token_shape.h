// The token axes of a batch, [B, S], and the tensors that must have them.

#ifndef CPFEED_CORE_BATCH_TOKEN_SHAPE_H_
#define CPFEED_CORE_BATCH_TOKEN_SHAPE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/batch/packed_batch.h"

namespace cpfeed {

// A chunk's stream is addressed by int32: it has fewer positions than this.
inline constexpr int64_t kMaxTokens = int64_t{1} << 31;

// The two token axes that all tensors of a batch share.
struct TokenShape {
  int64_t num_rows = 0;   // B, at least 1.
  int64_t row_width = 0;  // S, at least 1.

  int64_t num_tokens() const { return num_rows * row_width; }  // < 2^31
};

// Whether extra tensors may not be called so: batches and shards have tensors
// of these names.
bool IsReservedTensorName(absl::string_view name);

// Checks dtype, shape and byte size of every tensor of `batch`, and that all
// have the token axes of input_ids. Reads no elements.
//
// Errors:
//   INVALID_ARGUMENT  BATCH_MALFORMED: a tensor is missing, has a dtype that it
//                     may not have, or a name that is empty, reserved or used
//                     twice. SHAPE_MISMATCH: a shape does not fit its bytes,
//                     its rank or the token axes, or there are no tokens.
//                     BATCH_TOO_LARGE: 2^31 tokens or more.
//                     MASK_NOT_SUPPORTED: a mask of floats.
absl::StatusOr<TokenShape> CheckTokenShapes(const PackedBatch& batch);

}  // namespace cpfeed

#endif  // CPFEED_CORE_BATCH_TOKEN_SHAPE_H_

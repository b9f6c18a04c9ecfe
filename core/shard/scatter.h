// Moves rows of token tensors into shards.

#ifndef CPFEED_CORE_SHARD_SCATTER_H_
#define CPFEED_CORE_SHARD_SCATTER_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "core/shard/source_order.h"
#include "core/shard/source_runs.h"
#include "core/tensor/buffer.h"
#include "core/tensor/dtype.h"

namespace cpfeed {

// Copies rows of `row_bytes` bytes from `source` (whose row 0 lies at
// `source_offset`) to `outs[rank]`, the address of that rank's row 0; a rank
// whose address is null gets nothing. Rows that no copy covers are left alone.
// `source` may be cut anywhere. Fastest where `copies` ascend in `source`.
void ScatterRows(const Buffer& source, int64_t source_offset, int64_t row_bytes,
                 absl::Span<const RankCopy> copies,
                 absl::Span<std::byte* const> outs);

// One rank's rows without a copy: fragments of `source` in row order. `runs`
// must cover all rows.
Buffer SliceRows(const Buffer& source, int64_t source_offset, int64_t row_bytes,
                 absl::Span<const CopyRun> runs);

// Writes `count` elements of `dtype` with the value `value` to `out`.
void FillElements(DType dtype, int64_t value, int64_t count, std::byte* out);

// Writes value, value + 1, ... (`count` integers of `dtype`), `stride_bytes`
// apart.
void FillCounting(DType dtype, int64_t value, int64_t count,
                  int64_t stride_bytes, std::byte* out);

// The integer of `dtype` at byte `offset` of `source`.
int64_t ReadElement(const Buffer& source, int64_t offset, DType dtype);

}  // namespace cpfeed

#endif  // CPFEED_CORE_SHARD_SCATTER_H_

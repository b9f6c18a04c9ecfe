// Heads of queries, keys and values, and how ranks share them.

#ifndef CPFEED_CORE_ATTENTION_ATTENTION_HEADS_H_
#define CPFEED_CORE_ATTENTION_ATTENTION_HEADS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace cpfeed {

// Query head h reads kv head h / (num_heads / num_kv_heads).
struct AttentionHeads {
  int64_t num_heads = 1;
  int64_t num_kv_heads = 1;  // Divides num_heads.
};

// Heads [begin, begin + count).
struct HeadRange {
  int64_t begin = 0;
  int64_t count = 0;

  friend bool operator==(const HeadRange&, const HeadRange&) = default;
};

// The heads that the rank at `place` of `size` ranks works on, where `heads` is
// a multiple of `size`; or, where it divides `size`, the one head that
// size / heads neighbours share.
//
// Example: 2 ranks share 8 query heads and 2 kv heads: rank 1 has query heads
// 4 .. 7 and kv head 1. 4 ranks: rank 1 has query heads 2 and 3, kv head 0.
HeadRange HeadsAt(int64_t heads, int64_t size, int64_t place);

// Whether `size` ranks can share the heads so: num_heads is a multiple of
// `size`, and num_kv_heads is a multiple or a divisor of it.
//
// Errors:
//   INVALID_ARGUMENT  They cannot (reason NOT_DIVISIBLE): "exchange alltoall
//                     cannot share 28 query and 7 kv heads over cp_size 2;
//                     ...". `size_name` is what `size` is called.
absl::Status CheckHeadShares(absl::string_view exchange,
                             const AttentionHeads& heads,
                             absl::string_view size_name, int64_t size);

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_ATTENTION_HEADS_H_

// One attention problem with all its numbers, as people write it down.

#ifndef CPFEED_CLIENT_WORKER_ATTENTION_CASE_H_
#define CPFEED_CLIENT_WORKER_ATTENTION_CASE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/json_values.h"
#include "core/attention/attention_mask.h"
#include "core/batch/packed_lengths.h"

namespace cpfeed {

// Arrays are row-major over the padded stream of T rows, the sum of the slots.
struct AttentionCase {
  PackedLengths lengths;
  bool has_lengths = false;  // Else the stream is one sequence.
  AttentionMask mask;
  double scale = 1.0;
  int64_t num_heads = 1;
  int64_t num_kv_heads = 1;
  int64_t head_dim = 1;
  int64_t value_dim = 1;
  std::vector<double> q;     // [T, num_heads, head_dim]
  std::vector<double> k;     // [T, num_kv_heads, head_dim]
  std::vector<double> v;     // [T, num_kv_heads, value_dim]
  std::vector<double> dout;  // [T, num_heads, value_dim], or empty.

  int64_t num_rows() const {
    return static_cast<int64_t>(q.size()) / (num_heads * head_dim);
  }
};

// Of an object with these keys; others are not looked at.
//
//   q, k, v           [T][heads][columns]
//   dout              likewise, if gradients are wanted
//   kind              "causal", "full" or "window" ("causal")
//   window_left       window: keys that are seen before the own one; -1: all
//   window_right      window: and behind it (0)
//   scale             (one over the root of q's columns)
//   seq_lens, cu_seqlens, seq_lens_padded: see ReadCaseLengths
//
// Errors:
//   INVALID_ARGUMENT  BATCH_MALFORMED: a value is of another form; the message
//                     names the place. SHAPE_MISMATCH: lists of one level
//                     differ in length, or the arrays' shapes do not fit
//                     together. LENGTHS_INCONSISTENT: slots do not sum to T.
//                     BAD_OPTION: an unknown kind, or a bad window.
absl::StatusOr<AttentionCase> AttentionCaseFromJson(const Json& json);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_ATTENTION_CASE_H_

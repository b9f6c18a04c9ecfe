// One problem of gated delta attention with all its numbers, as people write it
// down.

#ifndef CPFEED_CLIENT_WORKER_DELTA_CASE_H_
#define CPFEED_CLIENT_WORKER_DELTA_CASE_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "client/cli/json_values.h"
#include "client/worker/number_array.h"
#include "core/batch/packed_lengths.h"
#include "core/linear_attention/gated_delta.h"

namespace cpfeed {

struct DeltaCase {
  PackedLengths lengths;
  bool has_lengths = false;  // Else the stream is one sequence.
  GatedDeltaOptions options;
  // By their names in the JSON. Those with rows have one for each of the T of
  // the padded stream.
  std::map<std::string, NumberArray> in;
  NumberArray dout;  // [T, value_heads, value_dim], or no values.

  bool has_conv() const { return in.contains("mixed_qkv"); }
  int64_t num_rows() const {
    return in.at(has_conv() ? "mixed_qkv" : "q").shape[0];
  }
};

// Whether the input has a row for each token; else it is a parameter.
bool HasRows(const std::string& name);

// Of an object with these keys; others are not looked at.
//
//   in           the arrays, of the rule alone: q, k [T][Hk][K], v [T][Hv][V],
//                g, beta [T][Hv]; or with its convolution and gates: mixed_qkv
//                [T][2 * Hk * K + Hv * V], conv_weight [columns][width], a, b
//                [T][Hv], A_log, dt_bias [Hv]
//   Hk, Hv, K, V with mixed_qkv: its heads and their columns
//   dout         [T][Hv][V], if gradients are wanted
//   scale        of q, after the norm (K^-1/2)
//   qk_l2norm    whether q and k are normalised (true)
//   seq_lens, cu_seqlens, seq_lens_padded: see ReadCaseLengths
//
// Errors:
//   INVALID_ARGUMENT  BATCH_MALFORMED: a value is of another form; the message
//                     names the place. SHAPE_MISMATCH: lists of one level
//                     differ in length, or arrays in their tokens.
//                     LENGTHS_INCONSISTENT: slots do not sum to T. BAD_OPTION:
//                     heads or columns out of range. That shapes fit together
//                     is for the rule to check.
absl::StatusOr<DeltaCase> DeltaCaseFromJson(const Json& json);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_DELTA_CASE_H_

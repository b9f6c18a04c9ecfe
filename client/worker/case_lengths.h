// The lengths of a case that people write as JSON.

#ifndef CPFEED_CLIENT_WORKER_CASE_LENGTHS_H_
#define CPFEED_CLIENT_WORKER_CASE_LENGTHS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cli/json_values.h"
#include "core/batch/packed_lengths.h"

namespace cpfeed {

struct CaseLengths {
  PackedLengths lengths;
  bool given = false;  // Else the stream is one sequence.
};

// Of a stream of `tokens` rows, as many as `array` has; from these keys:
//
//   seq_lens         real lengths, or a list of them for each row
//   cu_seqlens       in its place: their prefix sums, from 0 on
//   seq_lens_padded  slots, like seq_lens (the real lengths)
//
// Errors:
//   INVALID_ARGUMENT  BATCH_MALFORMED: no lists of integers.
//                     LENGTHS_INCONSISTENT: counts differ, sums descend, or
//                     slots do not sum to `tokens`.
absl::StatusOr<CaseLengths> ReadCaseLengths(const Json& json, int64_t tokens,
                                            absl::string_view array);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_CASE_LENGTHS_H_

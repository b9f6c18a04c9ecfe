// The batches that a loader fed, read from where it read them, to check workers
// against.

#ifndef CPFEED_CLIENT_WORKER_EXPECTED_BATCHES_H_
#define CPFEED_CLIENT_WORKER_EXPECTED_BATCHES_H_

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace cpfeed {

// One document as it was packed, without padding.
struct ExpectedSequence {
  std::vector<int64_t> tokens;
  std::vector<int64_t> positions;  // As many.
  std::vector<int64_t> labels;     // As many, or none in the whole batch.
};

// A file of JSON lines as `cpfeed pack` writes it: line n is the batch of step
// n, an object with `input_ids`, lists of rows, and optionally `seq_lens`,
// `seq_lens_padded` (both ragged; negative numbers are fillers) and
// `position_ids`. Without seq_lens a row is one sequence. Reads a line at a
// time.
class ExpectedBatches {
 public:
  // Errors:
  //   NOT_FOUND  The file cannot be opened.
  static absl::StatusOr<ExpectedBatches> Open(const std::string& path);

  // The sequences of the batch of `step`, row after row; nothing behind the
  // last line. Steps that are asked for ascend.
  //
  // Errors:
  //   INVALID_ARGUMENT  The line is no such object (reason BATCH_MALFORMED);
  //   the
  //                     message has file and line.
  absl::StatusOr<std::optional<std::vector<ExpectedSequence>>> Read(
      int64_t step);

 private:
  ExpectedBatches(std::string path, std::ifstream file);

  std::string path_;
  std::ifstream file_;
  int64_t next_line_ = 0;
};

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_EXPECTED_BATCHES_H_

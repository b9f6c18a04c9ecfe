// Lengths of packed sequences as people write them down.

#ifndef CPFEED_CLIENT_CLI_LENGTHS_FILE_H_
#define CPFEED_CLIENT_CLI_LENGTHS_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/batch/packed_lengths.h"

namespace cpfeed {

// Reads one of
//   12\n300\n5                     one length a line, all in one row
//   [12, 300, 5]                   the same
//   [[12, 300], [5]]               a list for each row
//   {"seq_lens": [[12, 300], [5]], "seq_lens_padded": [[16, 304], [8]]}
//                                  real and slot lengths, in either form of
//                                  list; without the second, slots are as long
//                                  as their sequences
// Whether lengths make sense together is for the planner to say.
//
// Errors:
//   INVALID_ARGUMENT  It is none of them, or has no length (reason
//                     BATCH_MALFORMED); the lists differ in form (reason
//                     LENGTHS_INCONSISTENT). The message names line or element.
absl::StatusOr<PackedLengths> ParseLengths(absl::string_view text);

// ParseLengths of a file, or of the standard input where `path` is "-".
//
// Errors:
//   INVALID_ARGUMENT  As ParseLengths; the message starts with the path. Reason
//                     BAD_OPTION: the file cannot be read.
absl::StatusOr<PackedLengths> ReadLengthsFile(const std::string& path);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_CLI_LENGTHS_FILE_H_

// JSON documents from untrusted files.

#ifndef CPFEED_CLIENT_CLI_JSON_INPUT_H_
#define CPFEED_CLIENT_CLI_JSON_INPUT_H_

#include <istream>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cli/json_values.h"

namespace cpfeed {

// Parses one document.
//
// Errors:
//   INVALID_ARGUMENT  BATCH_MALFORMED: not JSON, with the place where it ends
//                     to be, or nested deeper than 64 levels.
absl::StatusOr<Json> ParseJson(absl::string_view text);

// The document in the file `path`, or in `standard_input` where it is "-".
//
// Errors: as ParseJson, and
//   NOT_FOUND  The file cannot be read.
absl::StatusOr<Json> ReadJson(const std::string& path,
                              std::istream& standard_input);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_CLI_JSON_INPUT_H_

// Flags that say which documents become which batches: those of `cpfeed pack`
// and `cpfeed feed`.

#ifndef CPFEED_CLIENT_CLI_PACK_FLAGS_H_
#define CPFEED_CLIENT_CLI_PACK_FLAGS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/documents/batch_source.h"

namespace cpfeed {

struct PackFlags {
  std::vector<std::string> inputs;
  std::string format = "auto";
  std::string tokenizer;  // A tokenizer.json; "" for byte-level tokens.
  std::string python;     // "": FindPython.

  int64_t row_width = 4096;
  int64_t rows = 1;
  int64_t cp_size = 1;
  std::string strategy = "best_fit_decreasing";
  std::string long_documents = "refuse";
  std::string row_tail = "extend";
  std::string last_batch = "fill";
  int64_t lookahead_tokens = int64_t{1} << 22;
  // Without them: 256 and 257 for byte-level tokens, else none and 0.
  std::optional<int64_t> end_token_id;
  std::optional<int64_t> padding_token_id;
  bool no_end_token = false;
  bool no_position_ids = false;

  bool shuffle = false;
  uint64_t seed = 0;
  int64_t epochs = 1;
  std::string parity = "native";
};

// Adds the flags to a sub-command; `flags` outlives it.
void AddPackFlags(CLI::App& command, PackFlags& flags);

// Opens the inputs and starts the tokenizer.
//
// Errors:
//   INVALID_ARGUMENT  A flag is out of its range (reason BAD_OPTION;
//   NOT_DIVISIBLE
//                     for row_width), and what OpenDocuments and
//                     BatchSource::Create say.
//   Others            Those of OpenDocuments and ProcessTokenizer::Start.
absl::StatusOr<std::unique_ptr<BatchSource>> OpenBatchSource(
    const PackFlags& flags);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_CLI_PACK_FLAGS_H_

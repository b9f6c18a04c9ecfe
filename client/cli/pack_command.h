// `cpfeed pack`: documents to packed batches, in a file.

#ifndef CPFEED_CLIENT_CLI_PACK_COMMAND_H_
#define CPFEED_CLIENT_CLI_PACK_COMMAND_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>

#include "client/cli/pack_flags.h"

namespace cpfeed {

struct PackCommandOptions {
  PackFlags flags;
  std::string output = "-";  // A file, or "-" for `out`.
  int64_t max_batches = 0;   // 0: all.
  bool json = false;         // Statistics and errors.
};

// Packs and writes one line of JSON for each batch (see pack_json.h), then
// statistics; errors as JSON with `json`, else as a line of text. Both go to
// `out`, or to `err` where the batches go to `out` and for errors as text.
// Work of more than two seconds reports its progress to `err`.
//
// Returns the exit status: 0; 2 where options or inputs are wrong; 1 where
// something else failed, such as writing.
int RunPack(const PackCommandOptions& options, std::ostream& out,
            std::ostream& err);

// Adds the sub-command. When it is parsed, `run` becomes RunPack on the
// standard streams; `run` outlives `app`.
void RegisterPack(CLI::App& app, std::function<int()>& run);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_CLI_PACK_COMMAND_H_

// `cpfeed explain`: what a rank got at a step, and why.

#ifndef CPFEED_CLIENT_CLI_EXPLAIN_COMMAND_H_
#define CPFEED_CLIENT_CLI_EXPLAIN_COMMAND_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>

#include "client/channel_security.h"

namespace cpfeed {

struct ExplainOptions {
  std::string server = "127.0.0.1:8470";
  ChannelSecurity security;
  std::string session;          // The id.
  std::optional<int64_t> step;  // Absent: the newest one.
  std::optional<int> rank;      // Also print its segments.
  std::string html;             // Write a page with pictures there.
  bool json = false;
};

// Asks the server for a step's lengths, plans them anew, checks that the plans
// are those that the ranks compared, and prints where the batch came from and
// what each rank got; with `json` one object
//   {"step", "producer", "sequence", "batch_id", "data_epoch", "held",
//    "cp_size", "chunks": [{"seq_lens", ..., and as PlanReportJson}]}.
//
// Returns the exit status: 0; 2 where there is no such session, step or rank; 1
// where the server does not answer, or its plan is another.
int RunExplain(const ExplainOptions& options, std::ostream& out,
               std::ostream& err);

// Adds the sub-command. When it is parsed, `run` becomes RunExplain on the
// standard streams; `run` outlives `app`.
void RegisterExplain(CLI::App& app, std::function<int()>& run);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_CLI_EXPLAIN_COMMAND_H_

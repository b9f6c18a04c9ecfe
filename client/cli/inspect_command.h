// `cpfeed inspect`: what a server's sessions are doing.

#ifndef CPFEED_CLIENT_CLI_INSPECT_COMMAND_H_
#define CPFEED_CLIENT_CLI_INSPECT_COMMAND_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <ostream>
#include <string>

#include "client/channel_security.h"

namespace cpfeed {

struct InspectOptions {
  std::string server = "127.0.0.1:8470";
  ChannelSecurity security;
  std::string session;  // The id; empty lists all sessions.
  bool json = false;
};

// Prints a table of all sessions, or one session with its producers and
// consumers; with `json` the messages of SessionService as JSON.
//
// Returns the exit status: 0; 2 where there is no such session; 1 where the
// server does not answer.
int RunInspect(const InspectOptions& options, std::ostream& out,
               std::ostream& err);

// Adds the sub-command. When it is parsed, `run` becomes RunInspect on the
// standard streams; `run` outlives `app`.
void RegisterInspect(CLI::App& app, std::function<int()>& run);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_CLI_INSPECT_COMMAND_H_

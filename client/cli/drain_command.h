// `cpfeed drain`: takes a server out of service, and back.

#ifndef CPFEED_CLIENT_CLI_DRAIN_COMMAND_H_
#define CPFEED_CLIENT_CLI_DRAIN_COMMAND_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <ostream>
#include <string>

#include "client/channel_security.h"

namespace cpfeed {

struct DrainOptions {
  std::string server = "127.0.0.1:8470";
  ChannelSecurity security;
  bool undo = false;         // Undrain.
  double wait_seconds = 60;  // For the streams to end; 0 does not wait.
};

// Asks the server to drain and waits until its streams have ended, or to go
// back into service; `out` gets what came of it. Needs the role operator.
//
// Returns the exit status: 0; 2 where the server refuses; 1 where it does not
// answer, or has streams still after `wait_seconds`.
int RunDrain(const DrainOptions& options, std::ostream& out, std::ostream& err);

// Adds the sub-command. When it is parsed, `run` becomes RunDrain on the
// standard streams; `run` outlives `app`.
void RegisterDrain(CLI::App& app, std::function<int()>& run);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_CLI_DRAIN_COMMAND_H_

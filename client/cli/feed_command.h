// `cpfeed feed`: documents to a session, as a loader does.

#ifndef CPFEED_CLIENT_CLI_FEED_COMMAND_H_
#define CPFEED_CLIENT_CLI_FEED_COMMAND_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>

#include "client/channel_security.h"
#include "client/cli/pack_flags.h"
#include "client/cli/session_flags.h"

namespace cpfeed {

struct FeedOptions {
  std::string server = "127.0.0.1:8470";
  ChannelSecurity security;
  std::string session;  // The id, without "sessions/".
  std::string producer = "default";
  bool create = false;  // Make the session, if it is not there.
  bool resume = false;  // Go on where this producer stopped.
  int64_t steps = 0;    // 0: all.
  double session_wait_seconds = 30;
  double reconnect_wait_seconds = 60;
  bool until_read = false;
  bool json = false;
  PackFlags pack;
  SessionFlags session_flags;
};

// Packs documents and puts the batches. Where the server goes away for a while,
// or the trainer goes back, it goes on from what the session wants. Progress
// goes to `err`; at the end the totals go to `out`, as a line of text or as
// JSON
//   {"status":"OK","steps","sequences","documents","tokens","padding_tokens"};
// documents are those that end in these steps, sequences also pieces of others.
//
// Returns the exit status: 0; 2 where options, inputs or a batch are wrong; 1
// where something else failed, such as the server.
int RunFeed(const FeedOptions& options, std::ostream& out, std::ostream& err);

// Adds the sub-command. When it is parsed, `run` becomes RunFeed on the
// standard streams; `run` outlives `app`.
void RegisterFeed(CLI::App& app, std::function<int()>& run);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_CLI_FEED_COMMAND_H_

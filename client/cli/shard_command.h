// `cpfeed shard`: who gets what of one batch?

#ifndef CPFEED_CLIENT_CLI_SHARD_COMMAND_H_
#define CPFEED_CLIENT_CLI_SHARD_COMMAND_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <istream>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/channel_security.h"
#include "client/cli/shard_flags.h"
#include "core/batch/packed_batch.h"
#include "core/plan/layout_spec.h"
#include "core/shard/shard.h"

namespace cpfeed {

// One batch to be sharded; `options` without pad_rule.
struct ShardRequest {
  PackedBatch batch;
  BatchOptions options;
  LayoutSpec layout;
  int cp_size = 1;
};

// Gives the shards of every rank, in order.
using ShardSource =
    std::function<absl::StatusOr<std::vector<StepShard>>(const ShardRequest&)>;

// Shards in this process.
//
// Errors: those of PrepareBatch.
absl::StatusOr<std::vector<StepShard>> ShardOffline(
    const ShardRequest& request);

// Runs the command: reads a batch from the file that `flags` name ("-" is
// `in`), has it sharded by `source` (in a parity mode by upstream's rules), and
// writes the result to `out`, as JSON or as a table. Returns the exit status;
// an error goes to `out` as JSON, or to `err` as text.
int RunShard(const ShardFlags& flags, const ShardSource& source,
             std::istream& in, std::ostream& out, std::ostream& err);

// The source that `--server ADDRESS` stands for.
using ServerSource = std::function<ShardSource(
    const std::string& address, const ChannelSecurity& security)>;

// Adds the sub-command to `app`. When it is chosen, `run` is set to what runs
// it and returns the exit status; `run` outlives the parsing.
void RegisterShard(CLI::App& app, std::function<int()>& run,
                   ServerSource server);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_CLI_SHARD_COMMAND_H_

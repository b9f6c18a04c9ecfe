// Sharding one batch through a server, in a session of its own.

#ifndef CPFEED_CLIENT_CLI_SHARD_REMOTE_H_
#define CPFEED_CLIENT_CLI_SHARD_REMOTE_H_

#include <string>

#include "client/channel_security.h"
#include "client/cli/shard_command.h"

namespace cpfeed {

// Puts the batch on a stream and reads every rank's shard from another, so
// batches of any size that the server takes go through. The session is deleted
// behind it.
//
// Errors of the source:
//   As IngestService.PutBatches and ShardService.StreamShards, and
//   RESOURCE_EXHAUSTED  The server has no room for the session.
ShardSource ShardThroughServer(const std::string& address,
                               const ChannelSecurity& security);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_CLI_SHARD_REMOTE_H_

// Shards as a table that a person can read.

#ifndef CPFEED_CLIENT_CLI_SHARD_TABLE_H_
#define CPFEED_CLIENT_CLI_SHARD_TABLE_H_

#include <string>
#include <vector>

#include "core/shard/shard.h"

namespace cpfeed {

// For each chunk a line about it and a line for each rank: its tokens, how many
// of them are padding and how many have a label, its attention area, the
// key-value rows that it receives, and where its tokens lie. `ranks` as for
// ShardsJson.
std::string ShardsTable(const std::vector<StepShard>& ranks);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_CLI_SHARD_TABLE_H_

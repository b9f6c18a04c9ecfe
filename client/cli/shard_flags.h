// The flags of `cpfeed shard`.

#ifndef CPFEED_CLIENT_CLI_SHARD_FLAGS_H_
#define CPFEED_CLIENT_CLI_SHARD_FLAGS_H_

#include <string>

#include "absl/status/statusor.h"
#include "client/channel_security.h"
#include "core/batch/packed_batch.h"
#include "core/batch/parity.h"
#include "core/plan/layout_spec.h"

namespace cpfeed {

// As they stand on the command line. Numbers are text here, so that a wrong one
// is answered like any other wrong input and not by the parser of flags. Empty
// means not given.
struct ShardFlags {
  std::string input;
  std::string cp_size;
  std::string num_chunks;
  std::string layout;
  bool uneven = false;
  std::string stripe_width;
  std::string chunk_size;
  bool keep_padding = false;
  std::string token_multiple;
  std::string parity;
  std::string padding_token_id;
  std::string seq_lens_padding_value;
  bool auto_pad = false;
  bool auto_fill = false;
  std::string server;
  ChannelSecurity security;
  bool json = false;
};

// What they mean.
struct ShardSettings {
  int cp_size = 1;
  BatchOptions options;  // But for pad_rule.
  LayoutSpec layout;
  Parity parity = Parity::kNative;
};

// Errors:
//   INVALID_ARGUMENT  BAD_OPTION: a number is none or out of range, a name is
//                     unknown, --input or --cp_size is missing, or a parity
//                     mode is asked for what upstream does not have.
absl::StatusOr<ShardSettings> ParseShardFlags(const ShardFlags& flags);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_CLI_SHARD_FLAGS_H_

#include "client/cli/session_flags.h"

#include "core/base/status_macros.h"
#include "core/plan/layout.h"

namespace cpfeed {

void AddSessionFlags(CLI::App& command, SessionFlags& flags) {
  command.add_option("--consumers_per_cp_rank", flags.consumers_per_cp_rank,
                     "Consumers that read each rank's shard on their own");
  command.add_option("--layout", flags.layout,
                     "Layout, such as HEAD_TAIL_PER_SEQUENCE (the default)");
  command.add_flag("--uneven", flags.uneven,
                   "CONTIGUOUS: the tokens need not divide by cp_size");
  command.add_option("--stripe_width", flags.stripe_width,
                     "STRIPED: tokens of a stripe");
  command.add_option("--chunk_size", flags.chunk_size,
                     "CHUNK_GREEDY: tokens of a chunk");
  command.add_option("--num_chunks", flags.num_chunks,
                     "Groups of rows that are sharded on their own");
  command.add_flag("--auto_pad", flags.auto_pad,
                   "Pad slots until the layout's rule holds");
  command.add_flag("--auto_fill", flags.auto_fill,
                   "Extend the last slot of rows that are not full");
  command.add_option("--memory_budget", flags.memory_budget_bytes,
                     "Bytes that the session may hold; 0 is the server's "
                     "default");
  command.add_option("--max_batch_bytes", flags.max_batch_bytes,
                     "Bytes of one batch; 0 is the server's default");
}

absl::StatusOr<v1::CreateSessionRequest> MakeCreateRequest(
    const std::string& session_id, const SessionFlags& flags) {
  v1::CreateSessionRequest request;
  request.set_session_id(session_id);
  v1::Session& session = *request.mutable_session();
  session.mutable_topology()->set_cp_size(flags.cp_size);
  session.mutable_topology()->set_consumers_per_cp_rank(
      flags.consumers_per_cp_rank);
  v1::ShardingSpec& sharding = *session.mutable_sharding();
  if (!flags.layout.empty()) {
    CF_ASSIGN_OR_RETURN(const Layout layout, ParseLayout(flags.layout));
    sharding.set_layout(static_cast<v1::Layout>(layout));
  }
  sharding.set_uneven(flags.uneven);
  sharding.set_stripe_width(flags.stripe_width);
  sharding.set_chunk_size(flags.chunk_size);
  sharding.set_num_chunks(flags.num_chunks);
  sharding.set_auto_pad(flags.auto_pad);
  sharding.set_auto_fill(flags.auto_fill);
  sharding.set_padding_token_id(flags.padding_token_id);
  session.mutable_limits()->set_memory_budget_bytes(flags.memory_budget_bytes);
  session.mutable_limits()->set_max_batch_bytes(flags.max_batch_bytes);
  return request;
}

}  // namespace cpfeed

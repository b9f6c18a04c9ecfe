#include "client/cli/shard_remote.h"

#include <unistd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/channel.h"
#include "client/feeder.h"
#include "client/session_client.h"
#include "client/shard_reader.h"
#include "core/base/status_macros.h"
#include "core/session/session_config.h"
#include "core/wire/batch_codec.h"
#include "core/wire/sharding_codec.h"

namespace cpfeed {
namespace {

// Names differ between processes and between calls of one.
std::string UniqueId() {
  return absl::StrCat("cpfeed-shard-", getpid(), "-",
                      absl::ToUnixNanos(absl::Now()));
}

v1::CreateSessionRequest DescribeSession(const std::string& id,
                                         const ShardRequest& request) {
  v1::CreateSessionRequest create;
  create.set_session_id(id);
  v1::Session& session = *create.mutable_session();
  session.mutable_topology()->set_cp_size(request.cp_size);
  v1::ShardingSpec& sharding = *session.mutable_sharding();
  sharding = ShardingToProto(request.layout);
  sharding.set_num_chunks(static_cast<int>(request.options.num_chunks));
  sharding.set_padding_token_id(request.options.padding_token_id);
  sharding.set_seq_lens_padding_value(request.options.seq_lens_padding_value);
  sharding.set_auto_pad(request.options.auto_pad);
  sharding.set_auto_fill(request.options.auto_fill);
  // Room for this batch, and for what auto_pad may make of it.
  const int64_t bytes = EncodeBatch(request.batch, "").payload.size() + 1024;
  session.mutable_limits()->set_max_batch_bytes(bytes);
  session.mutable_limits()->set_memory_budget_bytes(
      2 * kCostPerPayloadByte * bytes * (request.options.auto_pad ? 16 : 1) +
      (int64_t{16} << 20));
  return create;
}

absl::StatusOr<std::vector<StepShard>> ShardInSession(
    const std::shared_ptr<grpc::Channel>& channel, const std::string& name,
    const ShardRequest& request) {
  std::vector<std::unique_ptr<ShardReader>> readers;
  for (int rank = 0; rank < request.cp_size; ++rank) {
    CF_ASSIGN_OR_RETURN(
        std::unique_ptr<ShardReader> reader,
        ShardReader::Attach(
            channel,
            {.session = name, .cp_rank = rank, .cp_size = request.cp_size}));
    readers.push_back(std::move(reader));
  }
  CF_ASSIGN_OR_RETURN(const std::unique_ptr<Feeder> feeder,
                      Feeder::Open(channel, {.session = name}));
  absl::Status put = feeder->Put(request.batch, {});
  if (put.ok()) put = feeder->Flush();
  CF_RETURN_IF_ERROR(put);
  std::vector<StepShard> shards;
  for (const std::unique_ptr<ShardReader>& reader : readers) {
    CF_ASSIGN_OR_RETURN(std::optional<ReceivedStep> step, reader->Next());
    if (!step) return absl::InternalError("the session ended without a step");
    shards.push_back(std::move(step->shard));
  }
  return shards;
}

}  // namespace

ShardSource ShardThroughServer(const std::string& address,
                               const ChannelSecurity& security) {
  return [address, security](const ShardRequest& request)
             -> absl::StatusOr<std::vector<StepShard>> {
    CF_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel,
                        OpenChannel(address, security));
    const std::string id = UniqueId();
    CF_ASSIGN_OR_RETURN(const v1::Session session,
                        CreateSession(channel, DescribeSession(id, request)));
    const auto cleanup = absl::MakeCleanup([&] {
      DeleteSession(channel, session.name(), /*force=*/true).IgnoreError();
    });
    return ShardInSession(channel, session.name(), request);
  };
}

}  // namespace cpfeed

#include "tests/bench/session_stream.h"

#include "absl/strings/str_cat.h"
#include "client/feeder.h"
#include "client/session_client.h"
#include "client/shard_reader.h"
#include "core/base/status_macros.h"
#include "cpfeed/v1/session.pb.h"
#include "tests/bench/document_batch.h"

namespace cpfeed::bench {
namespace {

constexpr int64_t kMeanDocument = 600;
constexpr int64_t kBytesPerToken = 25;

}  // namespace

void FillSession(const std::shared_ptr<grpc::Channel>& channel,
                 const SessionLoad& load) {
  v1::CreateSessionRequest request;
  request.set_session_id(load.id);
  v1::Session& session = *request.mutable_session();
  session.mutable_topology()->set_cp_size(load.cp_size);
  v1::SessionLimits& limits = *session.mutable_limits();
  // Room for all steps and for the batch that is being converted.
  const int64_t step_bytes = load.step_tokens * kBytesPerToken;
  limits.set_max_batch_bytes(2 * step_bytes);
  limits.set_memory_budget_bytes(4 * (load.num_steps + 4) * step_bytes);
  limits.set_max_message_bytes(load.chunk_bytes);
  CF_CHECK(CreateSession(channel, request).ok());
  auto feeder =
      Feeder::Open(channel, {.session = absl::StrCat("sessions/", load.id)});
  CF_CHECK(feeder.ok());
  const PackedBatch batch = MakeDocumentBatch(load.step_tokens, kMeanDocument,
                                              int64_t{2} * load.cp_size);
  for (int64_t i = 0; i < load.num_steps; ++i) {
    CF_CHECK((*feeder)->Put(batch, {}).ok());
  }
  const auto num_steps = (*feeder)->Finish();
  CF_CHECK(num_steps.ok() && *num_steps == load.num_steps);
}

int64_t ReadSession(const std::shared_ptr<grpc::Channel>& channel,
                    const std::string& id, int cp_rank) {
  auto reader = ShardReader::Attach(
      channel, {.session = absl::StrCat("sessions/", id), .cp_rank = cp_rank});
  CF_CHECK(reader.ok());
  int64_t bytes = 0;
  while (true) {
    const auto step = (*reader)->Next();
    CF_CHECK(step.ok());
    if (!step->has_value()) return bytes;
    for (const NamedTensor& named : (*step)->shard.chunks[0].tensors) {
      // The reader has gathered it into memory of its own.
      CF_CHECK(named.tensor.bytes.fragments().size() == 1);
      bytes += named.tensor.bytes.size();
    }
    CF_CHECK((*reader)->Ack((*step)->header.step()).ok());
  }
}

}  // namespace cpfeed::bench

// One consumer's StreamShards stream.

#ifndef CPFEED_SERVER_SHARD_STREAM_H_
#define CPFEED_SERVER_SHARD_STREAM_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/tensor/buffer.h"
#include "core/wire/shard_codec.h"
#include "cpfeed/v1/shard.pb.h"
#include "server/auth/principal.h"
#include "server/metrics/server_metrics.h"
#include "server/session_host.h"
#include "server/session_registry.h"
#include "server/wakeup.h"
#include "transport/server_call.h"

namespace cpfeed {

// All on the call's own thread.
class ShardStream {
 public:
  ShardStream(SessionRegistry& registry, ServerMetrics& metrics,
              absl::string_view server_instance, Caller caller,
              ServerCall& call);
  ~ShardStream();

  // Handles the stream to its end and returns its status.
  absl::Status Run();

 private:
  absl::Status OnMessage(const Buffer& message);
  absl::Status OnAttach(const v1::AttachConsumer& attach);
  absl::Status RunLoop();
  absl::Status Advance();
  absl::StatusOr<bool> Drain();
  absl::Status PrepareStep(int64_t step);
  void QueueStep();
  void WriteNext();
  void Send(const v1::StreamShardsResponse& response,
            const std::string& payload = "");

  class Bell final : public Wakeup {
   public:
    explicit Bell(ServerCall& call) : call_(call) {}
    void Notify() override { call_.Notify(); }

   private:
    ServerCall& call_;
  };

  SessionRegistry& registry_;
  ServerMetrics& metrics_;
  const std::string server_instance_;
  const Caller caller_;
  ServerCall& call_;
  Bell bell_;

  std::shared_ptr<SessionHost> host_;
  int64_t connection_ = 0;
  int cp_rank_ = 0;
  int consumer_ = 0;
  bool leader_ = false;  // Gets the cursors.
  std::vector<std::string> tensors_;

  // The next step, made ready once and sent when credit allows.
  std::shared_ptr<const HeldStep> held_;
  EncodedStep next_;

  std::deque<Buffer> outbox_;  // Control messages and the step's header.
  // The rest of the payload of the step that is being sent.
  Buffer payload_;
  int64_t payload_offset_ = 0;
  absl::Time sending_since_;
  std::optional<absl::Time> starved_since_;  // No step is there for it.
  bool ended_ = false;
  bool detached_ = false;
  bool drain_noticed_ = false;
  bool drained_ = false;  // After the end of the data.
};

}  // namespace cpfeed

#endif  // CPFEED_SERVER_SHARD_STREAM_H_

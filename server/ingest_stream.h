// One loader's PutBatches stream.

#ifndef CPFEED_SERVER_INGEST_STREAM_H_
#define CPFEED_SERVER_INGEST_STREAM_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/tensor/buffer.h"
#include "cpfeed/v1/ingest.pb.h"
#include "server/auth/principal.h"
#include "server/batch_converter.h"
#include "server/metrics/server_metrics.h"
#include "server/session_host.h"
#include "server/session_registry.h"
#include "server/wakeup.h"
#include "transport/server_call.h"

namespace cpfeed {

// Two threads: the call's own reads, admits and writes; the converter's turns
// complete batches into shards, so that the next batch arrives meanwhile.
class IngestStream {
 public:
  IngestStream(SessionRegistry& registry, const ConversionBackend& backend,
               ServerMetrics& metrics, absl::string_view server_instance,
               Caller caller, ServerCall& call);
  ~IngestStream();

  // Handles the stream to its end and returns its status.
  absl::Status Run();

 private:
  // A batch whose payload is complete, or the end of the data.
  struct Arrived {
    v1::BatchHeader header;
    Buffer payload;
    absl::Duration receiving;
    std::optional<int64_t> finish;  // num_batches of FinishProducer.
    int64_t connection = 0;         // Filled in by Arrive.
  };

  // ---- The call's thread ----
  absl::Status OnMessage(const Buffer& message);
  absl::Status OnOpen(const v1::OpenProducer& open);
  absl::Status OnBatch(const v1::BatchHeader& header);
  absl::Status OnChunk(const v1::PayloadChunk& chunk, const Buffer& payload);
  absl::Status OnFinish(const v1::FinishProducer& finish);
  absl::Status OnAbort(const v1::AbortBatch& abort);
  void OnFollow(const v1::FollowRewind& follow);
  absl::Status TakeMessages();
  absl::Status Advance();
  absl::Status Rewind() ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status RunLoop();
  absl::Status CollectNews() ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Drain(absl::Time deadline, bool settled)
      ABSL_LOCKS_EXCLUDED(mu_);
  bool IsSettled() const ABSL_LOCKS_EXCLUDED(mu_);
  void WriteNext() ABSL_LOCKS_EXCLUDED(mu_);
  void Refuse(int64_t sequence, const absl::Status& why);
  bool HasRoom() const ABSL_LOCKS_EXCLUDED(mu_);
  bool IsIdle() const ABSL_LOCKS_EXCLUDED(mu_);

  // ---- The converter's thread ----
  void ConvertLoop() ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Convert(Arrived arrived);
  absl::Status DecodeAndConvert(Arrived arrived);
  absl::Status Settle(int64_t connection, int64_t sequence,
                      const absl::Status& why);
  absl::Status ChargeOrWait(int64_t connection, int64_t sequence,
                            int64_t bytes);

  void SendReceipt(int64_t connection, int64_t sequence,
                   v1::BatchReceipt::Outcome outcome, int64_t step,
                   const absl::Status& why) ABSL_LOCKS_EXCLUDED(mu_);
  static Buffer Encode(const v1::PutBatchesResponse& response,
                       const std::optional<std::string>& state = {});
  void Send(Buffer message) ABSL_LOCKS_EXCLUDED(mu_);
  void Arrive(Arrived arrived) ABSL_LOCKS_EXCLUDED(mu_);

  // Notifies both threads: a change of the session concerns either.
  class Bell final : public Wakeup {
   public:
    explicit Bell(ServerCall& call) : call_(call) {}
    void Notify() override {
      Wakeup::Notify();
      call_.Notify();
    }

   private:
    ServerCall& call_;
  };

  SessionRegistry& registry_;
  const ConversionBackend backend_;
  ServerMetrics& metrics_;
  const std::string server_instance_;
  const Caller caller_;
  ServerCall& call_;
  Bell bell_;

  // Set before the converter starts.
  std::shared_ptr<SessionHost> host_;
  std::string producer_;
  int64_t incarnation_ = 0;
  bool follows_rewind_ = false;

  // Used by the call's thread.
  int64_t connection_ = 0;  // Another one after a rewind.
  std::optional<int64_t>
      rewinding_;  // Generation that the loader is to follow.
  std::optional<v1::BatchHeader> receiving_;
  Buffer received_;
  absl::Time receiving_since_;
  int64_t expected_bytes_ = 0;
  std::optional<int64_t> dropping_;  // Chunks of this sequence are dropped.
  bool message_ready_ = false;       // In call_, not taken yet.
  bool end_sent_ = false;
  bool drain_noticed_ = false;

  std::thread converter_;
  mutable absl::Mutex mu_;
  std::deque<Arrived> arrived_ ABSL_GUARDED_BY(mu_);
  std::deque<Buffer> outbox_ ABSL_GUARDED_BY(mu_);
  int64_t live_connection_ ABSL_GUARDED_BY(mu_) = 0;  // As connection_.
  bool converting_ ABSL_GUARDED_BY(mu_) = false;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status broken_ ABSL_GUARDED_BY(mu_);  // The converter's verdict.
};

}  // namespace cpfeed

#endif  // CPFEED_SERVER_INGEST_STREAM_H_

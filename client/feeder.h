// The loader's end: puts batches into a session, in order.

#ifndef CPFEED_CLIENT_FEEDER_H_
#define CPFEED_CLIENT_FEEDER_H_

#include <grpcpp/channel.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/batch/packed_batch.h"
#include "cpfeed/v1/ingest.pb.h"
#include "transport/client_stream.h"

namespace cpfeed {

struct FeederOptions {
  std::string session;               // "sessions/{session}"
  std::string producer = "default";  // One of the session's.
  // Fences older feeders of the same producer: grows with every start. 0 takes
  // the time.
  int64_t incarnation = 0;
  // How long to wait for the session to be made.
  absl::Duration session_wait = absl::Seconds(30);
  std::string traceparent;  // W3C header for the server's log; empty: none.
  // Told of every receipt, on the feeder's own thread.
  std::function<void(const v1::BatchReceipt&)> on_receipt;
};

// What travels beside a batch.
struct BatchInfo {
  std::string batch_id;        // For people; at most 256 bytes.
  std::string producer_state;  // Comes back after a rewind; at most 64 KiB.
  int64_t data_epoch = 0;
};

// One stream of one producer. Put, Flush and Finish are for one thread.
class Feeder {
 public:
  // Opens the stream.
  //
  // Errors: as IngestService.PutBatches.
  static absl::StatusOr<std::unique_ptr<Feeder>> Open(
      std::shared_ptr<grpc::Channel> channel, FeederOptions options);
  ~Feeder();

  // The number of the next batch: how many the session has of this producer.
  int64_t next_sequence() const { return next_sequence_; }

  // What the producer sent as its state with the batch before the first one
  // that is to be put here.
  const std::optional<std::string>& producer_state() const {
    return producer_state_;
  }

  // Sends a batch; its bytes are referred to until they are sent. Blocks while
  // the session has no room for it.
  //
  // Errors:
  //   INVALID_ARGUMENT  BATCH_TOO_LARGE: tensors and producer_state have more
  //                     bytes than a batch may have. Or an earlier batch was
  //                     rejected; the message has its number and the reason.
  //   ABORTED           REWOUND: the trainer went to another step; see Follow.
  //   Others            The stream ended.
  absl::Status Put(const PackedBatch& batch, const BatchInfo& info);

  // Waits until every batch has its receipt. Errors as Put.
  absl::Status Flush();

  // Flushes and ends this producer's data. Returns the number of steps of the
  // session, or -1 while other producers go on.
  absl::StatusOr<int64_t> Finish();

  // After REWOUND: goes on with this stream, with the batch next_sequence() of
  // the session as it is now; what has no receipt is forgotten. False where the
  // stream has ended and must be opened again.
  bool Follow();

 private:
  Feeder(std::shared_ptr<grpc::Channel> channel, FeederOptions options);
  absl::Status Start();
  void ReadLoop();
  void OnResponse(const v1::PutBatchesResponse& response, const Buffer& payload)
      ABSL_LOCKS_EXCLUDED(mu_);
  void OnRewind(const v1::Rewind& rewind, const Buffer& state)
      ABSL_LOCKS_EXCLUDED(mu_);
  void OnReceipt(const v1::BatchReceipt& receipt) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status WaitForCredit(int64_t bytes) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status SendPayload(const Buffer& payload);
  absl::Status BrokenStream() ABSL_LOCKS_EXCLUDED(mu_);

  const FeederOptions options_;
  ClientStream stream_;
  int64_t next_sequence_ = 0;
  int64_t max_batch_bytes_ = 0;
  int64_t max_message_bytes_ = 0;
  std::optional<std::string> producer_state_;

  std::thread reader_;
  absl::Mutex mu_;
  int64_t credit_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t without_receipt_ ABSL_GUARDED_BY(mu_) = 0;
  std::optional<int64_t> num_steps_ ABSL_GUARDED_BY(mu_);  // The end came.
  bool ended_ ABSL_GUARDED_BY(mu_) = false;                // The call ended.
  absl::Status status_ ABSL_GUARDED_BY(mu_);               // First error.
  // What the server said of a rewind that is not followed yet.
  std::optional<v1::Rewind> rewind_ ABSL_GUARDED_BY(mu_);
  std::optional<std::string> rewind_state_ ABSL_GUARDED_BY(mu_);
};

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_FEEDER_H_

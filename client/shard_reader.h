// The rank's end: reads the shards of one consumer, in step order.

#ifndef CPFEED_CLIENT_SHARD_READER_H_
#define CPFEED_CLIENT_SHARD_READER_H_

#include <grpcpp/channel.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/shard/shard.h"
#include "cpfeed/v1/shard.pb.h"
#include "transport/client_stream.h"

namespace cpfeed {

struct ShardReaderOptions {
  std::string session;  // "sessions/{session}"
  int cp_rank = 0;
  int consumer = 0;
  int cp_size = 0;  // What the caller expects; 0 takes the session's.
  int64_t generation = 0;
  // Fences older readers of the same consumer: grows with every start. 0 takes
  // the time.
  int64_t incarnation = 0;
  std::optional<int64_t> first_step;  // Default: behind the last acknowledged.
  std::vector<std::string> tensors;   // Empty: all.
  // Payload that may be under way or held without acknowledgement.
  int64_t credit_bytes = int64_t{256} << 20;
  // A step with more is refused before memory is made for it.
  int64_t max_step_bytes = int64_t{16} << 30;
  // How long to wait for the session to be made.
  absl::Duration session_wait = absl::Seconds(30);
  std::string traceparent;  // W3C header for the server's log; empty: none.
};

// What a consumer receives.
struct ReceivedStep {
  enum class Kind {
    kStep,       // `header` and `shard`.
    kTombstone,  // `header.step` is skipped at every consumer.
    kEpochEnd,   // The pass header.data_epoch ended with header.step.
  };
  Kind kind = Kind::kStep;
  v1::StepHeader header;
  StepShard shard;
  std::string cursor;  // Serialized v1::Cursor behind the step; leader only.
  std::string reason;  // Of a tombstone.
};

// For one thread.
class ShardReader {
 public:
  // Attaches.
  //
  // Errors: as ShardService.StreamShards.
  static absl::StatusOr<std::unique_ptr<ShardReader>> Attach(
      std::shared_ptr<grpc::Channel> channel, ShardReaderOptions options);

  // At the end of the data waits until the server has the acknowledgements;
  // before it cancels the stream.
  ~ShardReader();

  int cp_size() const { return attached_.cp_size(); }
  const v1::ConsumerAttached& attached() const { return attached_; }

  // The next step, its checksums and plan digest verified; nothing at the end
  // of the data. Blocks.
  //
  // Errors:
  //   DATA_LOSS  A checksum or digest does not agree.
  //   Others     The stream ended.
  absl::StatusOr<std::optional<ReceivedStep>> Next();

  // The caller holds all steps up to this one. Makes room for more.
  absl::Status Ack(int64_t through_step);

 private:
  ShardReader(std::shared_ptr<grpc::Channel> channel,
              ShardReaderOptions options);
  absl::Status Start();
  absl::StatusOr<ReceivedStep> ReadStep(v1::StepHeader header);
  absl::Status Send(const v1::StreamShardsRequest& request);

  const ShardReaderOptions options_;
  ClientStream stream_;
  v1::ConsumerAttached attached_;
  // Steps without acknowledgement, and their payload bytes.
  std::deque<std::pair<int64_t, int64_t>> unacked_;
  bool at_end_ = false;  // Of the data.
  bool ended_ = false;   // No more can be read.
};

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_SHARD_READER_H_

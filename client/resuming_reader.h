// A consumer that outlives broken streams and restarted servers.

#ifndef CPFEED_CLIENT_RESUMING_READER_H_
#define CPFEED_CLIENT_RESUMING_READER_H_

#include <grpcpp/channel.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/retry_policy.h"
#include "client/shard_reader.h"
#include "cpfeed/v1/session.pb.h"

namespace cpfeed {

struct ResumingReaderOptions {
  // `first_step` is where the caller goes on: it holds all before, and is given
  // none of them again.
  ShardReaderOptions reader;
  RetryOptions retry;
  // The leader's (cp_rank 0, consumer 0): how the session is made. It is made
  // again where the server lost it, from the cursor of a step that every
  // consumer has acknowledged: max_step_skew steps before the newest one, or
  // from this request's start_cursor.
  std::optional<v1::CreateSessionRequest> create;
};

// For one thread. After a break it attaches behind the last step that was
// acknowledged; steps that were given before are compared by digest and
// dropped.
class ResumingReader {
 public:
  // Makes the session where `create` is set, and attaches.
  //
  // Errors: as ShardReader::Attach, where it is none to go on after.
  static absl::StatusOr<std::unique_ptr<ResumingReader>> Attach(
      std::shared_ptr<grpc::Channel> channel, ResumingReaderOptions options);

  // As ShardReader::Next.
  //
  // Errors:
  //   ALREADY_EXISTS       SEQUENCE_CONFLICT: a step came again with other
  //                        content.
  //   FAILED_PRECONDITION  CURSOR_MISMATCH: the session was made again behind
  //                        steps that this consumer lacks.
  //   Others               None to go on after: see client/retry_policy.h.
  absl::StatusOr<std::optional<ReceivedStep>> Next();

  // The caller holds all steps up to this one. A stream that breaks here is
  // opened again by Next.
  void Ack(int64_t through_step);

  const v1::ConsumerAttached& attached() const { return reader_->attached(); }

  // Times that it attached again.
  int64_t resumed() const { return resumed_; }

  // How long the caller waited for data in Next, all together.
  absl::Duration data_wait() const { return data_wait_; }

 private:
  ResumingReader(std::shared_ptr<grpc::Channel> channel,
                 ResumingReaderOptions options);
  absl::Status AttachOnce();
  absl::Status AttachUntil(absl::Status status);
  absl::StatusOr<v1::Session> FindOrMakeSession();
  absl::Status CheckNoGap() const;
  absl::StatusOr<std::optional<ReceivedStep>> NextOrResume();
  absl::StatusOr<bool> IsNew(const ReceivedStep& step);
  void KeepCursor(const ReceivedStep& step);

  const std::shared_ptr<grpc::Channel> channel_;
  ResumingReaderOptions options_;
  RetryPolicy policy_;
  std::unique_ptr<ShardReader> reader_;
  absl::Status broken_;       // The stream's end, as an acknowledgement met it.
  std::string session_made_;  // create_time of the session that it read.
  int64_t max_step_skew_ = 0;
  std::optional<int64_t> delivered_;  // The last step that Next returned.
  std::optional<int64_t> acked_;
  int64_t ended_epoch_step_ = -1;        // Of the last EPOCH_END.
  std::map<int64_t, uint64_t> digests_;  // Of steps that may come again.
  std::deque<std::pair<int64_t, std::string>> cursors_;  // Leader only.
  int64_t resumed_ = 0;
  absl::Duration data_wait_;
};

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_RESUMING_READER_H_

// Feeds a producer's batches to the end, whatever happens on the way.

#ifndef CPFEED_CLIENT_FEED_H_
#define CPFEED_CLIENT_FEED_H_

#include <grpcpp/channel.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/feeder.h"
#include "client/retry_policy.h"
#include "core/batch/packed_batch.h"
#include "cpfeed/v1/session.pb.h"

namespace cpfeed {

struct OutgoingBatch {
  PackedBatch batch;
  BatchInfo info;
};

// Where batches come from; used by one thread, which looks after the stream
// between two batches.
struct BatchStream {
  // The next batch; nothing at the end of the data.
  std::function<absl::StatusOr<std::optional<OutgoingBatch>>()> next;

  // Makes batch `next_sequence` the next one. `state` is what was sent as
  // producer_state with the batch before; absent where there was none. Called
  // first of all, and whenever the session wants batches that were given
  // already and cannot be sent again from memory.
  std::function<absl::Status(int64_t next_sequence,
                             const std::optional<std::string>& state)>
      go_to;
};

struct FeedSettings {
  FeederOptions stream;
  RetryOptions retry;
  // How the session is made where there is none: at first, and again where a
  // server that is started anew has lost it. One that was deleted is not made
  // again.
  std::optional<v1::CreateSessionRequest> create;
  // Stay until all consumers have acknowledged everything, or the session is
  // deleted, or (without `create`) gone for stream.session_wait: a server that
  // is started anew, or a trainer that goes back, may want batches again after
  // the last one.
  bool until_read = false;
};

struct FedTotals {
  int64_t num_batches = 0;  // Of the producer, from its beginning.
  int64_t num_steps = -1;   // Of the session; -1 while other producers go on.
  int64_t resumed = 0;      // Times that the stream was opened again.
  int64_t rewound = 0;      // Times that it went back without.
};

// Opens the producer's stream, puts all batches and finishes. When the trainer
// goes back the source does, and the stream goes on. When it breaks it is
// opened again as client/retry_policy.h says, with a newer incarnation: batches
// without a receipt are sent again, and where the session wants older ones the
// source goes back.
//
// Errors: of the stream, where it is none to go on after; of CreateSession; of
// `source`.
absl::StatusOr<FedTotals> Feed(std::shared_ptr<grpc::Channel> channel,
                               FeedSettings options, const BatchStream& source);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_FEED_H_

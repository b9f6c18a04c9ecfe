// What consumers may do in a session: attach, be sent steps in order, and
// acknowledge them. Attaching again fences the connection before: its calls
// fail with FENCED.

#ifndef CPFEED_CORE_SESSION_CONSUMER_SIDE_H_
#define CPFEED_CORE_SESSION_CONSUMER_SIDE_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/session/producer_side.h"
#include "core/session/session_parts.h"

namespace cpfeed {

class ConsumerSide : public ProducerSide {
 public:
  // Opens a stream for a consumer and returns its connection. `first_step` is
  // where it goes on; without it, behind its last acknowledged step.
  //
  // Errors:
  //   INVALID_ARGUMENT     Rank or consumer out of range.
  //   ABORTED              FENCED: an older incarnation or generation.
  //   OUT_OF_RANGE         CURSOR_EXPIRED: `first_step` is freed.
  //   FAILED_PRECONDITION  CURSOR_MISMATCH: `first_step` is ahead of the steps
  //                        that this consumer was sent since the last seek.
  absl::StatusOr<int64_t> Attach(int cp_rank, int consumer, int64_t incarnation,
                                 int64_t generation,
                                 std::optional<int64_t> first_step);

  // What the consumer gets next.
  absl::StatusOr<Delivery> Next(int64_t connection) const;

  // Sends the next step, of `bytes`, if credit allows (or nothing of this
  // consumer's is unacknowledged). True: send it now.
  absl::StatusOr<bool> TrySend(int64_t connection, int64_t bytes);

  absl::Status AddCredit(int64_t connection, int64_t bytes);

  // The consumer holds all steps up to `through_step`.
  //
  // Errors:
  //   INVALID_ARGUMENT  It was not sent that step.
  absl::Status Ack(int64_t connection, int64_t through_step);

  void CloseConsumer(int64_t connection);

 protected:
  using ProducerSide::ProducerSide;

 private:
  absl::StatusOr<const Consumer*> FindConsumer(int64_t connection) const;
  absl::StatusOr<Consumer*> FindConsumer(int64_t connection);
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_SESSION_CONSUMER_SIDE_H_

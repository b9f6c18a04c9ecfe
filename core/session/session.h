// The delivery state machine of one context-parallel group: which batch becomes
// which step, and who may have it when.
//
// Plain bookkeeping over numbers. It holds no bytes, takes no lock, starts no
// thread and reads no clock; the server keeps the bytes of the held steps and
// calls under its own lock. It can be copied, so that tests explore all orders
// of events.
//
// A connection is one stream of a producer or consumer. Opening again fences
// the connection before: its calls fail with FENCED.

#ifndef CPFEED_CORE_SESSION_SESSION_H_
#define CPFEED_CORE_SESSION_SESSION_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/session/session_config.h"
#include "core/session/session_parts.h"

namespace cpfeed {

class Session {
 public:
  using Producer = ProducerState;
  using Consumer = ConsumerState;

  // `config` has passed ValidateConfig.
  explicit Session(SessionConfig config);

  // ---- Producers ----

  // Opens a stream for a producer and returns its connection.
  //
  // Errors:
  //   NOT_FOUND  No producer of that id.
  //   ABORTED    FENCED: `incarnation` is older than one seen, or the same one
  //              has a stream open.
  absl::StatusOr<int64_t> OpenProducer(absl::string_view id,
                                       int64_t incarnation);

  // A batch's header arrived: charges `cost_bytes` (at most
  // kCostPerPayloadByte * payload_bytes) for it and takes `payload_bytes` out
  // of the credit. A duplicate costs nothing. After a seek a batch that was
  // published before must come with the same digest again.
  //
  // Of a duplicate, and of a batch that is refused for its place in the order,
  // the payload is dropped as it comes; its credit is granted anew.
  //
  // Errors:
  //   ABORTED              FENCED.
  //   FAILED_PRECONDITION  OUT_OF_ORDER: not the sequence that is next; the
  //                        message has both. Or the producer has finished.
  //   ALREADY_EXISTS       SEQUENCE_CONFLICT: a known sequence with another
  //                        digest.
  //   OUT_OF_RANGE         CURSOR_EXPIRED: a sequence from before the committed
  //                        step, whose digest is forgotten.
  //   INVALID_ARGUMENT     The credit does not cover it.
  absl::StatusOr<Admission> Admit(int64_t connection, int64_t sequence,
                                  uint64_t digest, int64_t payload_bytes,
                                  int64_t cost_bytes);

  // A header was refused before it came to Admit, and the stream goes on: the
  // payload is dropped as it comes, its credit is granted anew.
  //
  // Errors:
  //   ABORTED  FENCED.
  absl::Status Refuse(int64_t connection, int64_t payload_bytes);

  // Changes the charge of an admitted batch. False: not now, because steps or
  // batches whose turn is before hold the memory; ask again when the session
  // has changed.
  //
  // A batch that grows to at most kCostPerPayloadByte * max_batch_bytes always
  // fits in the end where the budget holds one such batch more than
  // ValidateConfig asks for.
  //
  // Errors:
  //   ABORTED              FENCED.
  //   FAILED_PRECONDITION  OUT_OF_ORDER: the batch is not under way (any more).
  //   INVALID_ARGUMENT     BATCH_TOO_LARGE: it will never fit.
  absl::StatusOr<bool> Recharge(int64_t connection, int64_t sequence,
                                int64_t cost_bytes);

  // The oldest batch under way is converted and costs `cost_bytes` from now on,
  // which is not above its charge. Returns the steps that this publishes: its
  // own, if it has its turn, and those that waited for it. Errors as Recharge.
  absl::StatusOr<std::vector<PublishedStep>> Complete(int64_t connection,
                                                      int64_t sequence,
                                                      int64_t cost_bytes);

  // A batch under way is wrong or withdrawn: its sequence is next again, and
  // batches that were admitted behind it are out of order. Errors as Recharge.
  absl::Status Reject(int64_t connection, int64_t sequence);

  // No more batches. Returns steps that waited for this producer's turn.
  //
  // Errors:
  //   FAILED_PRECONDITION  OUT_OF_ORDER: `num_batches` is not what came.
  absl::StatusOr<std::vector<PublishedStep>> Finish(int64_t connection,
                                                    int64_t num_batches);

  // The stream is gone. Batches under way are dropped.
  void CloseProducer(int64_t connection);

  // Credit that the producer has not been told of; 0 where there is none.
  //
  // Errors:
  //   ABORTED  FENCED.
  absl::StatusOr<int64_t> TakeGrant(int64_t connection);

  // ---- Consumers ----

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

  // ---- The trainer ----

  // A checkpoint covers the steps up to this one. Monotonic: an older one
  // changes nothing.
  //
  // Errors:
  //   OUT_OF_RANGE  The step is not published.
  absl::Status Commit(int64_t step);

  // Goes back (or, on a new server, forward) to behind `step`; consumers attach
  // anew. Where kRetain has kept all steps behind it, they are sent again and
  // producers go on as if nothing had happened: returns false. Else everything
  // held is dropped and producers send from `next_sequences` on: returns true.
  // Digests stay, so that a replay that differs is a conflict.
  //
  // Errors:
  //   INVALID_ARGUMENT  CURSOR_MISMATCH: not one sequence for each producer, a
  //                     number that is negative or above 2^53, or sequences
  //                     other than those published up to `step`.
  //   OUT_OF_RANGE      CURSOR_EXPIRED: a step behind it is freed, and
  //                     producers cannot replay (kRetain).
  absl::StatusOr<bool> Seek(int64_t step,
                            const std::vector<int64_t>& next_sequences,
                            const std::vector<bool>& finished);

  // Takes max_step_skew, max_uncommitted_steps and memory_budget_bytes of
  // `limits`; the rest of the configuration stays.
  //
  // Errors: as ValidateConfig, and
  //   RESOURCE_EXHAUSTED  MEMORY_PRESSURE: more than the budget is held and
  //                       promised now.
  absl::Status SetLimits(const SessionConfig& limits);

  // The session cannot go on; all calls return `status` from now on.
  void Fail(absl::Status status);

  // ---- State ----

  const SessionConfig& config() const { return config_; }
  const std::vector<Producer>& producers() const { return producers_; }
  const std::vector<Consumer>& consumers() const { return consumers_; }
  int64_t generation() const { return generation_; }
  int64_t next_step() const { return next_step_; }
  // The producer whose batch is the next step.
  int turn() const { return turn_; }
  // Steps below this one may be freed.
  int64_t first_held_step() const { return first_held_step_; }
  int64_t committed_step() const { return committed_step_; }
  int64_t charged_bytes() const { return charged_bytes_; }
  // Memory that is promised to producers as credit.
  int64_t reserved_bytes() const;
  const absl::Status& failure() const { return failure_; }
  bool all_finished() const;
  bool all_acked() const;

  // Empty if the books are in order, else what is wrong. For tests.
  std::string CheckInvariants() const;

 private:
  absl::StatusOr<Producer*> FindProducer(int64_t connection);
  static absl::StatusOr<Producer::Batch*> FindReceiving(Producer& producer,
                                                        int64_t sequence);
  void DropReceiving(Producer& producer, int64_t from_sequence);
  absl::StatusOr<const Consumer*> FindConsumer(int64_t connection) const;
  absl::StatusOr<Consumer*> FindConsumer(int64_t connection);
  std::vector<PublishedStep> PublishTurns();
  void Publish(int producer, std::vector<PublishedStep>& published);
  void FreeSteps();
  void RewindProducers(const std::vector<int64_t>& next_sequences,
                       const std::vector<bool>& finished);
  void Charge(Producer& producer, int64_t bytes);
  void RefillCredits();
  int64_t ReserveOf(const Producer& producer) const;
  int64_t ClaimedBytes() const;
  int64_t RoomForMore() const;
  bool IsNextStep(const Producer& producer, const Producer::Batch& batch) const;
  absl::StatusOr<bool> MayGrow(const Producer& producer,
                               const Producer::Batch& batch,
                               int64_t more) const;
  bool WillFreeSteps() const;
  int64_t SlowestAckedStep() const;

  SessionConfig config_;
  std::vector<Producer> producers_;
  std::vector<Consumer> consumers_;  // [cp_rank * consumers_per_cp_rank + c]
  int64_t last_connection_ = 0;
  int64_t generation_ = 1;
  int64_t next_step_ = 0;
  int64_t first_held_step_ = 0;
  int64_t committed_step_ = -1;
  int turn_ = 0;  // The producer whose batch is the next step.
  std::deque<int64_t> held_cost_bytes_;  // Of [first_held_step_, next_step_).
  int64_t charged_bytes_ = 0;  // Of held, waiting and arriving batches.
  absl::Status failure_;
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_SESSION_SESSION_H_

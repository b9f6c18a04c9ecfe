// What producers may do in a session: open a stream, send batches in order, and
// get credit for more. Opening again fences the connection before: its calls
// fail with FENCED.

#ifndef CPFEED_CORE_SESSION_PRODUCER_SIDE_H_
#define CPFEED_CORE_SESSION_PRODUCER_SIDE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/session/session_books.h"
#include "core/session/session_parts.h"

namespace cpfeed {

class ProducerSide : public SessionBooks {
 public:
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

 protected:
  using SessionBooks::SessionBooks;

 private:
  absl::StatusOr<Producer*> FindProducer(int64_t connection);
  static absl::StatusOr<Producer::Batch*> FindReceiving(Producer& producer,
                                                        int64_t sequence);
  void DropReceiving(Producer& producer, int64_t from_sequence);
  std::vector<PublishedStep> PublishTurns();
  void Publish(int producer, std::vector<PublishedStep>& published);
  bool IsNextStep(const Producer& producer, const Producer::Batch& batch) const;
  absl::StatusOr<bool> MayGrow(const Producer& producer,
                               const Producer::Batch& batch,
                               int64_t more) const;
  bool WillFreeSteps() const;
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_SESSION_PRODUCER_SIDE_H_

// How the ranks of a group exchange bytes.
//
// Everything is built on one primitive, the exchange: a set of sends and
// receives that make progress together (what NCCL calls a group). Collectives
// on top of it reduce in rank order, so that every rank gets the same bits in
// every run.

#ifndef CPFEED_CORE_COMM_COMMUNICATOR_H_
#define CPFEED_CORE_COMM_COMMUNICATOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace cpfeed {

// Bytes for one peer. The caller owns them and leaves them as they are until
// the exchange has been waited for.
struct SendPart {
  int peer = 0;
  absl::Span<const std::byte> bytes;
};

// Room for bytes from one peer, just as many as that peer sends.
struct ReceivePart {
  int peer = 0;
  absl::Span<std::byte> bytes;
};

// An exchange under way. It must be waited for: dropping it before that leaves
// the group in an unknown state, so every later call on it fails.
class PendingExchange {
 public:
  virtual ~PendingExchange() = default;

  // Waits until all parts are sent and received. May be called once.
  //
  // Errors:
  //   DEADLINE_EXCEEDED  A peer did not take part within the timeout (reason
  //                      PEER_LATE; the message names it).
  //   UNAVAILABLE        A peer is gone (reason PEER_LOST; the message names
  //                      it), or the group was aborted.
  virtual absl::Status Wait() = 0;
};

// What a group is called and how patient it is.
struct CommOptions {
  std::string group_name = "cp";              // In every error; one per group.
  absl::Duration timeout = absl::Minutes(5);  // Of each wait for a peer.
};

// Bytes that this rank exchanged with other ranks. What it sends to itself is
// not counted.
struct CommBytes {
  int64_t sent = 0;
  int64_t received = 0;
};

// One rank's end of a group. All ranks of a group make the same calls in the
// same order. Used by one thread, except for Abort(), which any thread may
// call. Ranks are 0 .. size() - 1.
//
// After an error the group is dead: every later call returns
// FAILED_PRECONDITION (reason GROUP_FAILED) with the first error in its
// message. A new group needs a new name.
class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  const CommOptions& options() const { return options_; }
  CommBytes bytes() const { return bytes_; }

  // Starts sending and receiving all parts at once. Several parts may have the
  // same peer; between two ranks the n-th part sent meets the n-th received.
  // Parts for this rank itself are copied at once, and parts without bytes are
  // left out. A rank without any part calls it all the same.
  //
  // Errors:
  //   INVALID_ARGUMENT  A peer is no rank of the group, or the parts for this
  //                     rank itself do not match.
  //   FAILED_PRECONDITION  The group failed earlier.
  absl::StatusOr<std::unique_ptr<PendingExchange>> StartExchange(
      absl::Span<const SendPart> sends, absl::Span<const ReceivePart> receives);

  // The same, waited for.
  absl::Status Exchange(absl::Span<const SendPart> sends,
                        absl::Span<const ReceivePart> receives);

  // Ends the group from any thread: waits under way and later calls return
  // an error with `reason`, here and, as soon as they notice, at the peers.
  virtual void Abort(absl::string_view reason) = 0;

 protected:
  Communicator(int rank, int size, CommOptions options);

  // Starts the parts that go to other ranks and are not empty. `number` counts
  // the exchanges of the group and is the same on all ranks.
  virtual absl::StatusOr<std::unique_ptr<PendingExchange>> Start(
      int64_t number, absl::Span<const SendPart> sends,
      absl::Span<const ReceivePart> receives) = 0;

  // Copies a part that this rank sends to itself; both have the same size, at
  // least 1. Overridden where parts may be in a device's memory.
  virtual absl::Status CopyOwn(absl::Span<const std::byte> from,
                               absl::Span<std::byte> to);

  // Why the group is dead, or OK. Thread-safe.
  virtual absl::Status Failure() const = 0;

  // The errors of a wait. `action` is "send to" or "receive from".
  absl::Status PeerLate(absl::string_view action, int peer) const;
  absl::Status PeerLost(absl::string_view action, int peer,
                        absl::string_view why) const;

 private:
  absl::Status CopyOwnParts(absl::Span<const SendPart> sends,
                            absl::Span<const ReceivePart> receives);

  const int rank_;
  const int size_;
  const CommOptions options_;
  int64_t exchanges_ = 0;
  CommBytes bytes_;
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_COMM_COMMUNICATOR_H_

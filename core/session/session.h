// The delivery state machine of one context-parallel group: which batch becomes
// which step, and who may have it when.
//
// Plain bookkeeping over numbers. It holds no bytes, takes no lock, starts no
// thread and reads no clock; the server keeps the bytes of the held steps and
// calls under its own lock. It can be copied, so that tests explore all orders
// of events.
//
// One class in four parts, each with a header: its books, what producers do,
// what consumers do, and here what the trainer does. A connection is one stream
// of a producer or consumer.

#ifndef CPFEED_CORE_SESSION_SESSION_H_
#define CPFEED_CORE_SESSION_SESSION_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/session/consumer_side.h"
#include "core/session/session_config.h"

namespace cpfeed {

class Session : public ConsumerSide {
 public:
  // `config` has passed ValidateConfig.
  explicit Session(SessionConfig config);

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

 private:
  void RewindProducers(const std::vector<int64_t>& next_sequences,
                       const std::vector<bool>& finished);
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_SESSION_SESSION_H_

// The books of a session: where producers and consumers stand, and what memory
// is charged and promised. The parts of a session read and write them; others
// read.

#ifndef CPFEED_CORE_SESSION_SESSION_BOOKS_H_
#define CPFEED_CORE_SESSION_SESSION_BOOKS_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/session/session_config.h"
#include "core/session/session_parts.h"

namespace cpfeed {

class SessionBooks {
 public:
  using Producer = ProducerState;
  using Consumer = ConsumerState;

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

  // Empty if the books are in order, else what is wrong.
  std::string CheckInvariants() const;

 protected:
  explicit SessionBooks(SessionConfig config);

  // ---- Memory ----

  void Charge(Producer& producer, int64_t bytes);
  // What nobody but `producer` may take.
  int64_t ReserveOf(const Producer& producer) const;
  int64_t ClaimedBytes() const;
  int64_t RoomForMore() const;
  // Grants what has become free.
  void RefillCredits();
  // Frees the steps that nobody needs any more.
  void FreeSteps();
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

#endif  // CPFEED_CORE_SESSION_SESSION_BOOKS_H_

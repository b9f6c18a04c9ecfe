// One session on the server: the state machine under a lock, and the bytes of
// the steps that it holds.

#ifndef CPFEED_SERVER_SESSION_HOST_H_
#define CPFEED_SERVER_SESSION_HOST_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/session/session.h"
#include "cpfeed/v1/session.pb.h"
#include "server/held_step.h"
#include "server/session_events.h"
#include "server/session_spec.h"
#include "server/session_standing.h"
#include "server/steady_clock.h"
#include "server/step_history.h"
#include "server/wakeup.h"

namespace cpfeed {

// Thread-safe. Errors are those of core/session/session.h; calls on a
// connection that a seek has ended fail with ABORTED and reason REWOUND.
class SessionHost {
 public:
  explicit SessionHost(SessionSpec spec, SteadyClock clock = SteadyNow);

  // As it was made; Update changes some of it for ToProto and the session.
  const SessionSpec& spec() const { return spec_; }

  // ---- Producers ----

  struct OpenedProducer {
    int64_t connection = 0;
    int64_t generation = 0;
    int64_t next_sequence = 0;
    int64_t credit_bytes = 0;
    std::optional<std::string> producer_state;  // Before next_sequence.
  };
  // `wakeup` is notified when receipts or credit may be there; it must outlive
  // the connection.
  absl::StatusOr<OpenedProducer> OpenProducer(absl::string_view id,
                                              int64_t incarnation,
                                              Wakeup* wakeup);
  absl::StatusOr<Admission> Admit(int64_t connection, int64_t sequence,
                                  uint64_t digest, int64_t payload_bytes,
                                  int64_t cost_bytes);
  absl::StatusOr<bool> Recharge(int64_t connection, int64_t sequence,
                                int64_t cost_bytes);
  absl::Status Complete(int64_t connection, int64_t sequence,
                        int64_t cost_bytes, ConvertedBatch batch);
  // A batch under way cannot be converted, though nothing is wrong with it. By
  // the session's policy its step becomes a tombstone, `batch` with `why`, or
  // the session fails and `why` is returned.
  absl::Status Quarantine(int64_t connection, int64_t sequence,
                          ConvertedBatch batch, const absl::Status& why);
  absl::Status Reject(int64_t connection, int64_t sequence);
  absl::Status Refuse(int64_t connection, int64_t payload_bytes);
  absl::Status Finish(int64_t connection, int64_t num_batches);
  void CloseProducer(int64_t connection);
  absl::StatusOr<int64_t> TakeGrant(int64_t connection);

  struct SettledBatch : PublishedStep {
    absl::Status poison;  // Not OK: its step is a tombstone.
  };
  // Steps that this producer's batches became since the last call.
  std::vector<SettledBatch> TakePublished(int64_t connection);

  // Whether the producer has finished and all its batches are steps.
  bool IsDrained(int64_t connection) const;

  // The number of steps, once every producer has finished.
  std::optional<int64_t> NumSteps() const;

  // ---- Consumers ----

  struct AttachedConsumer {
    int64_t connection = 0;
    int64_t generation = 0;
    int64_t first_step = 0;
    int64_t redelivered_steps = 0;  // That it was sent before.
  };
  absl::StatusOr<AttachedConsumer> Attach(int cp_rank, int consumer,
                                          int64_t incarnation,
                                          int64_t generation,
                                          std::optional<int64_t> first_step,
                                          Wakeup* wakeup);
  absl::StatusOr<Delivery> Next(int64_t connection) const;
  absl::StatusOr<bool> TrySend(int64_t connection, int64_t bytes);
  absl::Status AddCredit(int64_t connection, int64_t bytes);
  absl::Status Ack(int64_t connection, int64_t through_step);
  void CloseConsumer(int64_t connection);

  // A held step; null where it is not published yet, or freed.
  std::shared_ptr<const HeldStep> FindStep(int64_t step) const;

  // What a step was, also when it is freed; null where it is not known (any
  // more).
  std::shared_ptr<const StepRecord> FindRecord(int64_t step) const;
  std::shared_ptr<const StepRecord> NewestRecord() const;

  // ---- The trainer ----

  absl::StatusOr<int64_t> Commit(const v1::Cursor& cursor);
  absl::Status Seek(const v1::Cursor& cursor);

  // The server stops at that time, or no longer does. Streams end when they
  // have delivered what is complete.
  void SetDrain(std::optional<absl::Time> deadline);
  // Takes no lock while nothing drains: streams ask at every event.
  std::optional<absl::Time> drain_deadline() const;

  // Whether nothing is left to be delivered to a consumer: no producer is
  // there, and it has acknowledged all published steps.
  bool IsSettled(int64_t connection) const;

  // Behind the newest published step; "" where there is none.
  std::string NewestCursor() const;

  // Ends all streams with `status`, now and later.
  void Fail(absl::Status status);

  // Fail, where the session is deleted (NOT_FOUND) or the server stops: watches
  // end, too.
  void End(absl::Status status);

  // Takes what SessionService.UpdateSession may change from `spec`.
  //
  // Errors: as Session::SetLimits.
  absl::Status Update(const SessionSpec& spec);

  // ---- Time ----

  // Starts the lease anew; returns what is left, or infinity without a lease.
  absl::Duration Renew();

  // Looks at the clock: open streams renew the lease, and a session that stands
  // still is told of. Whether the lease has run out.
  bool Tick();

  // What happened, for those who watch. `event`'s kind and what it concerns are
  // set; the rest is filled in.
  void Announce(SessionEvent event);
  const SessionEvents& events() const { return events_; }
  // The first event of a watch.
  SessionEvent CurrentEvent() const;

  // ---- State ----

  v1::Session ToProto() const;
  bool AllAcked() const;

  // Calls `read` under the lock: it must not take long, or call back.
  void Read(absl::FunctionRef<void(const Session&, const SessionStanding&)>
                read) const;

  // Batches that became steps, each time that they did.
  int64_t published_steps() const;

  // Batches that could not be converted.
  int64_t quarantined_batches() const;

  int64_t memory_budget_bytes() const;

 private:
  struct Connection {
    Wakeup* wakeup = nullptr;
    int producer = -1;  // -1 for consumers.
    std::vector<SettledBatch> published;
  };

  absl::Status CheckOfThisSession(const v1::Cursor& cursor) const;
  absl::Status Explain(absl::Status status, int64_t connection) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void HoldPublished(const std::vector<PublishedStep>& published)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::string MakeCursor(int64_t step) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void DropFreed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void NotifyAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  int FindProducerIndex(int64_t connection) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FillPositions(v1::Session& proto) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  SessionStanding Standing() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FillEvent(SessionEvent& event) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AnnounceState() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void MarkProgress() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const SessionSpec spec_;
  const absl::Time create_time_;
  const SteadyClock clock_;
  SessionEvents events_;

  mutable absl::Mutex mu_;
  v1::Session current_ ABSL_GUARDED_BY(mu_);  // The spec, with its updates.
  Session session_ ABSL_GUARDED_BY(mu_);
  std::map<int64_t, Connection> connections_ ABSL_GUARDED_BY(mu_);
  std::set<int64_t> rewound_ ABSL_GUARDED_BY(mu_);  // Ended by a seek.
  // Converted batches that wait for their turn, by producer and sequence.
  std::map<std::pair<int, int64_t>, ConvertedBatch> waiting_
      ABSL_GUARDED_BY(mu_);
  std::map<int64_t, std::shared_ptr<const HeldStep>> steps_
      ABSL_GUARDED_BY(mu_);
  // What the cursor behind the newest step says of each producer.
  std::vector<v1::ProducerCursor> cursors_ ABSL_GUARDED_BY(mu_);
  std::optional<absl::Time> drain_deadline_ ABSL_GUARDED_BY(mu_);
  std::atomic<bool> draining_ = false;
  int64_t published_steps_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t quarantined_batches_ ABSL_GUARDED_BY(mu_) = 0;
  std::optional<int64_t> last_epoch_ ABSL_GUARDED_BY(mu_);  // Of the last step.
  StepHistory history_ ABSL_GUARDED_BY(mu_);
  absl::Duration renewed_at_ ABSL_GUARDED_BY(mu_);
  absl::Duration progress_at_ ABSL_GUARDED_BY(mu_);
  SessionStanding announced_ ABSL_GUARDED_BY(mu_);
};

}  // namespace cpfeed

#endif  // CPFEED_SERVER_SESSION_HOST_H_

// What happened to one session, for those who watch it.

#ifndef CPFEED_SERVER_SESSION_EVENTS_H_
#define CPFEED_SERVER_SESSION_EVENTS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "cpfeed/v1/session.pb.h"

namespace cpfeed {

using SessionEvent = v1::WatchSessionResponse;

// Events of a stream, of a consumer or producer, and of a batch.
SessionEvent ConsumerEvent(v1::EventKind kind, int cp_rank, int consumer);
SessionEvent ProducerEvent(v1::EventKind kind, const std::string& producer);
SessionEvent QuarantineEvent(const std::string& producer, int64_t sequence,
                             const absl::Status& why);

// Keeps the newest events. Thread-safe.
class SessionEvents {
 public:
  explicit SessionEvents(size_t most_kept = 256) : most_kept_(most_kept) {}

  // Numbers the event and keeps it.
  void Add(SessionEvent event) ABSL_LOCKS_EXCLUDED(mu_);

  // No more events; those who wait learn why when they have all.
  void Close(absl::Status why) ABSL_LOCKS_EXCLUDED(mu_);

  // The number of the newest event; 0 before the first.
  int64_t newest() const ABSL_LOCKS_EXCLUDED(mu_);

  struct News {
    std::vector<SessionEvent> events;
    absl::Status end;  // Not OK: there will be no more.
  };

  // Events behind number `after`, in order; waits at most `at_most` for one. An
  // EVENT_KIND_MISSED leads where older ones are no longer kept.
  News WaitPast(int64_t after, absl::Duration at_most) const
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  const size_t most_kept_;
  mutable absl::Mutex mu_;
  std::deque<SessionEvent> kept_ ABSL_GUARDED_BY(mu_);
  int64_t newest_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status end_ ABSL_GUARDED_BY(mu_);
};

}  // namespace cpfeed

#endif  // CPFEED_SERVER_SESSION_EVENTS_H_

// All sessions of a server, by name.

#ifndef CPFEED_SERVER_SESSION_REGISTRY_H_
#define CPFEED_SERVER_SESSION_REGISTRY_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "cpfeed/v1/session.pb.h"
#include "server/auth/principal.h"
#include "server/session_host.h"
#include "server/session_spec.h"
#include "server/steady_clock.h"

namespace cpfeed {

struct RegistryOptions {
  int max_sessions = 256;
  int64_t memory_budget_bytes = int64_t{4} << 30;  // Of all sessions.
  // Streams of all sessions; each takes two threads.
  int max_streams = 1024;
  SessionDefaults defaults;
  SteadyClock clock = SteadyNow;
};

// Thread-safe.
class SessionRegistry {
 public:
  explicit SessionRegistry(RegistryOptions options);

  // Makes a session, or finds the one of the same id and spec.
  //
  // Errors: as SessionService.CreateSession, and
  //   PERMISSION_DENIED  The id has not the caller's prefix.
  absl::StatusOr<std::shared_ptr<SessionHost>> Create(
      const v1::CreateSessionRequest& request, const Caller& caller);

  // Errors:
  //   NOT_FOUND  SESSION_NOT_FOUND: there is none, or none for this caller;
  //              SESSION_DELETED: there was one, and it was deleted lately.
  absl::StatusOr<std::shared_ptr<SessionHost>> Find(absl::string_view name,
                                                    const Caller& caller) const;

  // As Find, for a new stream.
  //
  // Errors: as Find, and
  //   UNAVAILABLE  DRAINING.
  absl::StatusOr<std::shared_ptr<SessionHost>> FindToOpen(
      absl::string_view name, const Caller& caller) const;

  // At most `page_size` of the caller's sessions with names above `after`.
  std::vector<std::shared_ptr<SessionHost>> List(absl::string_view after,
                                                 int page_size,
                                                 const Caller& caller) const;

  // All sessions, by name.
  std::vector<std::shared_ptr<SessionHost>> All() const;

  // Of all sessions that there are and were. Never falls.
  int64_t published_steps() const;
  int64_t quarantined_batches() const;

  // Errors: as SessionService.DeleteSession.
  absl::Status Delete(const v1::DeleteSessionRequest& request,
                      const Caller& caller);

  // Errors: as SessionService.UpdateSession.
  absl::StatusOr<std::shared_ptr<SessionHost>> Update(
      const v1::UpdateSessionRequest& request, const Caller& caller);

  // Looks at the clock for all sessions; see SessionHost::Tick. Deletes those
  // whose lease has run out and returns their names. Call about once a second.
  std::vector<std::string> Sweep();

  // Makes no more sessions and streams, and tells those that there are; see
  // SessionHost::SetDrain.
  void BeginDrain(absl::Time deadline);
  void EndDrain();
  bool draining() const;

  // Makes no more sessions, and ends all streams with `status`.
  void Shutdown(const absl::Status& status);

 private:
  // Room for `spec`, in place of a session of its name.
  absl::Status CheckRoom(const SessionSpec& spec) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckQuota(const SessionSpec& spec, const Caller& caller) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RememberDeleted(const std::string& name) ABSL_LOCKS_EXCLUDED(mu_);
  // False: it is gone already.
  bool Erase(const SessionHost& host) ABSL_LOCKS_EXCLUDED(mu_);

  const RegistryOptions options_;
  mutable absl::Mutex mu_;
  std::map<std::string, std::shared_ptr<SessionHost>, std::less<>> sessions_
      ABSL_GUARDED_BY(mu_);
  // Who made each session.
  std::map<std::string, std::string, std::less<>> owners_ ABSL_GUARDED_BY(mu_);
  bool draining_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status closed_ ABSL_GUARDED_BY(mu_);
  std::deque<std::string> recently_deleted_ ABSL_GUARDED_BY(mu_);
  // Of deleted sessions.
  int64_t deleted_steps_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t deleted_quarantined_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace cpfeed

#endif  // CPFEED_SERVER_SESSION_REGISTRY_H_

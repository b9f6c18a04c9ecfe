#include "server/session_registry.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/wire/cursor_codec.h"
#include "server/session_update.h"

namespace cpfeed {
namespace {

// When memory may be there that is not now.
constexpr absl::Duration kRetryForMemory = absl::Seconds(1);

// Deleted sessions that are told from those that never were.
constexpr size_t kRememberedNames = 256;

absl::Status CheckStartCursor(const v1::Cursor& cursor, const SessionSpec& spec,
                              bool allow_topology_change) {
  CF_RETURN_IF_ERROR(CheckCursor(cursor));
  if (cursor.spec_digest() == spec.digest) return absl::OkStatus();
  if (cursor.schema_digest() != spec.schema_digest) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition, kCursorMismatch,
        absl::StrCat("start_cursor is of a session whose sharding, tensors, "
                     "producers and dp_size have the digest ",
                     absl::Hex(cursor.schema_digest()),
                     "; those of this one have ",
                     absl::Hex(spec.schema_digest)));
  }
  if (allow_topology_change) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kFailedPrecondition, kTopologyMismatch,
      absl::StrCat("start_cursor is of a session with spec digest ",
                   absl::Hex(cursor.spec_digest()), "; this one has ",
                   absl::Hex(spec.digest),
                   " and another topology; set allow_topology_change if that "
                   "is meant"));
}

absl::Status Draining() {
  return MakeError(absl::StatusCode::kUnavailable, kDraining,
                   "the server drains; open again when it is back");
}

}  // namespace

SessionRegistry::SessionRegistry(RegistryOptions options) : options_(options) {}

absl::Status SessionRegistry::CheckRoom(const SessionSpec& spec) const {
  const bool is_new = !sessions_.contains(spec.name);
  if (is_new && static_cast<int>(sessions_.size()) >= options_.max_sessions) {
    return MakeError(absl::StatusCode::kResourceExhausted, kQuota,
                     absl::StrCat("server has ", sessions_.size(),
                                  " sessions, as many as --max_sessions"));
  }
  int64_t bytes = spec.config.memory_budget_bytes;
  int64_t streams = 0;
  const auto count = [&](const SessionSpec& other) {
    streams += other.config.num_consumers() +
               static_cast<int64_t>(other.config.producers.size());
  };
  count(spec);
  for (const auto& [name, host] : sessions_) {
    if (name == spec.name) continue;
    bytes += host->memory_budget_bytes();
    count(host->spec());
  }
  if (bytes > options_.memory_budget_bytes) {
    return WithRetryDelay(
        MakeError(absl::StatusCode::kResourceExhausted, kMemoryPressure,
                  absl::StrCat("sessions ask for ", bytes,
                               " bytes together; the server's --memory_budget "
                               "is ",
                               options_.memory_budget_bytes)),
        kRetryForMemory);
  }
  if (streams > options_.max_streams) {
    return MakeError(absl::StatusCode::kResourceExhausted, kQuota,
                     absl::StrCat("sessions ask for ", streams,
                                  " streams together; the server has ",
                                  options_.max_streams));
  }
  return absl::OkStatus();
}

absl::Status SessionRegistry::CheckQuota(const SessionSpec& spec,
                                         const Caller& caller) const {
  int64_t sessions = 1;
  int64_t bytes = spec.config.memory_budget_bytes;
  for (const auto& [name, owner] : owners_) {
    if (owner != caller.name() || name == spec.name) continue;
    ++sessions;
    bytes += sessions_.find(name)->second->memory_budget_bytes();
  }
  const auto check = [&](absl::string_view what, int64_t used,
                         int64_t most) -> absl::Status {
    if (most == 0 || used <= most) return absl::OkStatus();
    return MakeError(
        absl::StatusCode::kResourceExhausted, kQuota,
        absl::StrCat("the sessions of ", caller.name(), " would have ", used,
                     " ", what, "; its quota is ", most));
  };
  CF_RETURN_IF_ERROR(check("sessions", sessions, caller.quota().sessions));
  return check("bytes", bytes, caller.quota().bytes);
}

absl::StatusOr<std::shared_ptr<SessionHost>> SessionRegistry::Create(
    const v1::CreateSessionRequest& request, const Caller& caller) {
  CF_ASSIGN_OR_RETURN(SessionSpec spec,
                      MakeSessionSpec(request, options_.defaults));
  if (!caller.Sees(spec.name)) {
    return MakeError(
        absl::StatusCode::kPermissionDenied, kNotPermitted,
        absl::StrCat("session ids of ", caller.name(), " must begin with ",
                     caller.principal->session_prefix));
  }
  v1::Cursor cursor = request.start_cursor();
  if (request.has_start_cursor()) {
    CF_RETURN_IF_ERROR(
        CheckStartCursor(cursor, spec, request.allow_topology_change()));
    cursor.set_spec_digest(spec.digest);
    SealCursor(cursor);
  }
  absl::MutexLock lock(&mu_);
  CF_RETURN_IF_ERROR(closed_);
  if (draining_) return Draining();
  const auto found = sessions_.find(spec.name);
  if (found != sessions_.end()) {
    const uint64_t digest = found->second->spec().request_digest;
    if (digest == spec.request_digest) return found->second;
    return MakeError(absl::StatusCode::kAlreadyExists, kSessionExists,
                     absl::StrCat(spec.name, " is there with a spec of digest ",
                                  absl::Hex(digest), "; this spec has ",
                                  absl::Hex(spec.request_digest)));
  }
  CF_RETURN_IF_ERROR(CheckRoom(spec));
  CF_RETURN_IF_ERROR(CheckQuota(spec, caller));
  auto host = std::make_shared<SessionHost>(spec, options_.clock);
  if (request.has_start_cursor()) {
    const absl::Status status = host->Seek(cursor);
    if (!status.ok()) return Annotate(status, "start_cursor");
  }
  if (!request.validate_only()) {
    sessions_[spec.name] = host;
    owners_[spec.name] = caller.name();
    std::erase(recently_deleted_, spec.name);
  }
  return host;
}

absl::StatusOr<std::shared_ptr<SessionHost>> SessionRegistry::Find(
    absl::string_view name, const Caller& caller) const {
  absl::MutexLock lock(&mu_);
  CF_RETURN_IF_ERROR(closed_);
  const auto found = sessions_.find(name);
  if (found != sessions_.end() && caller.Sees(name)) return found->second;
  const bool was_deleted =
      std::find(recently_deleted_.begin(), recently_deleted_.end(), name) !=
      recently_deleted_.end();
  if (was_deleted && caller.Sees(name)) {
    return MakeError(absl::StatusCode::kNotFound, kSessionDeleted,
                     absl::StrCat(name, " was deleted"));
  }
  // The caller's words may be anything: they are not repeated unchecked.
  const bool named = SessionName(absl::StripPrefix(name, "sessions/")).ok();
  return MakeError(
      absl::StatusCode::kNotFound, kSessionNotFound,
      absl::StrCat("there is no session ", named ? name : "of that name"));
}

absl::StatusOr<std::shared_ptr<SessionHost>> SessionRegistry::FindToOpen(
    absl::string_view name, const Caller& caller) const {
  if (draining()) return Draining();
  return Find(name, caller);
}

void SessionRegistry::BeginDrain(absl::Time deadline) {
  absl::MutexLock lock(&mu_);
  draining_ = true;
  for (const auto& [name, host] : sessions_) host->SetDrain(deadline);
}

void SessionRegistry::EndDrain() {
  absl::MutexLock lock(&mu_);
  draining_ = false;
  for (const auto& [name, host] : sessions_) host->SetDrain(std::nullopt);
}

bool SessionRegistry::draining() const {
  absl::MutexLock lock(&mu_);
  return draining_;
}

std::vector<std::shared_ptr<SessionHost>> SessionRegistry::List(
    absl::string_view after, int page_size, const Caller& caller) const {
  absl::MutexLock lock(&mu_);
  std::vector<std::shared_ptr<SessionHost>> page;
  for (auto it = sessions_.upper_bound(after);
       it != sessions_.end() && static_cast<int>(page.size()) < page_size;
       ++it) {
    if (caller.Sees(it->first)) page.push_back(it->second);
  }
  return page;
}

std::vector<std::shared_ptr<SessionHost>> SessionRegistry::All() const {
  absl::MutexLock lock(&mu_);
  std::vector<std::shared_ptr<SessionHost>> all;
  for (const auto& [name, host] : sessions_) all.push_back(host);
  return all;
}

int64_t SessionRegistry::published_steps() const {
  absl::MutexLock lock(&mu_);
  int64_t steps = deleted_steps_;
  for (const auto& [name, host] : sessions_) steps += host->published_steps();
  return steps;
}

int64_t SessionRegistry::quarantined_batches() const {
  absl::MutexLock lock(&mu_);
  int64_t batches = deleted_quarantined_;
  for (const auto& [name, host] : sessions_) {
    batches += host->quarantined_batches();
  }
  return batches;
}

absl::Status SessionRegistry::Delete(const v1::DeleteSessionRequest& request,
                                     const Caller& caller) {
  absl::StatusOr<std::shared_ptr<SessionHost>> host =
      Find(request.name(), caller);
  if (!host.ok()) {
    return request.allow_missing() && absl::IsNotFound(host.status())
               ? absl::OkStatus()
               : host.status();
  }
  if (!request.force() && !(*host)->AllAcked()) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition, kOutOfOrder,
        absl::StrCat(request.name(),
                     " has steps that are not acknowledged; set force"));
  }
  if (Erase(**host)) {
    RememberDeleted(request.name());
    (*host)->End(MakeError(absl::StatusCode::kNotFound, kSessionDeleted,
                           absl::StrCat(request.name(), " was deleted")));
  }
  return absl::OkStatus();
}

void SessionRegistry::RememberDeleted(const std::string& name) {
  absl::MutexLock lock(&mu_);
  recently_deleted_.push_back(name);
  if (recently_deleted_.size() > kRememberedNames) {
    recently_deleted_.pop_front();
  }
}

bool SessionRegistry::Erase(const SessionHost& host) {
  absl::MutexLock lock(&mu_);
  const auto found = sessions_.find(host.spec().name);
  if (found == sessions_.end() || found->second.get() != &host) return false;
  deleted_steps_ += host.published_steps();
  deleted_quarantined_ += host.quarantined_batches();
  owners_.erase(host.spec().name);
  sessions_.erase(found);  // The caller holds it.
  return true;
}

std::vector<std::string> SessionRegistry::Sweep() {
  std::vector<std::string> expired;
  for (const std::shared_ptr<SessionHost>& host : All()) {
    if (!host->Tick() || !Erase(*host)) continue;
    const std::string& name = host->spec().name;
    host->End(MakeError(absl::StatusCode::kNotFound, kSessionExpired,
                        absl::StrCat("the lease of ", name, " ran out")));
    expired.push_back(name);
  }
  return expired;
}

absl::StatusOr<std::shared_ptr<SessionHost>> SessionRegistry::Update(
    const v1::UpdateSessionRequest& request, const Caller& caller) {
  CF_ASSIGN_OR_RETURN(const std::shared_ptr<SessionHost> host,
                      Find(request.session().name(), caller));
  v1::Session changed = host->ToProto();
  CF_RETURN_IF_ERROR(ApplyUpdate(request, changed));
  CF_ASSIGN_OR_RETURN(
      const SessionSpec spec,
      MakeSessionSpec(host->spec().name, changed, options_.defaults));
  absl::MutexLock lock(&mu_);
  if (spec.config.memory_budget_bytes > host->memory_budget_bytes()) {
    CF_RETURN_IF_ERROR(CheckRoom(spec));
    CF_RETURN_IF_ERROR(CheckQuota(spec, caller));
  }
  CF_RETURN_IF_ERROR(host->Update(spec));
  return host;
}

void SessionRegistry::Shutdown(const absl::Status& status) {
  absl::MutexLock lock(&mu_);
  closed_ = status;
  for (const auto& [name, host] : sessions_) host->End(status);
}

}  // namespace cpfeed

// The part of a session that concerns the trainer: cursors, commit, seek, the
// end.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/wire/batch_codec.h"
#include "core/wire/cursor_codec.h"
#include "server/session_host.h"

namespace cpfeed {

absl::Status SessionHost::CheckOfThisSession(const v1::Cursor& cursor) const {
  CF_RETURN_IF_ERROR(CheckCursor(cursor));
  if (cursor.spec_digest() != spec_.digest) {
    return MakeError(absl::StatusCode::kFailedPrecondition, kCursorMismatch,
                     absl::StrCat("cursor is of a session with spec digest ",
                                  absl::Hex(cursor.spec_digest()),
                                  "; this one has ", absl::Hex(spec_.digest)));
  }
  const auto& ids = spec_.config.producers;
  const bool same =
      std::equal(ids.begin(), ids.end(), cursor.producers().begin(),
                 cursor.producers().end(),
                 [](const std::string& id, const v1::ProducerCursor& producer) {
                   return id == producer.producer();
                 });
  if (!same) {
    return MakeError(absl::StatusCode::kFailedPrecondition, kCursorMismatch,
                     "cursor has other producers than the session");
  }
  for (const v1::ProducerCursor& producer : cursor.producers()) {
    const auto bytes = static_cast<int64_t>(producer.producer_state().size());
    if (bytes <= kMaxProducerStateBytes) continue;
    return MakeError(
        absl::StatusCode::kFailedPrecondition, kCursorMismatch,
        absl::StrCat("cursor: producer_state of ", producer.producer(), " has ",
                     bytes, " bytes; must be at most ",
                     kMaxProducerStateBytes));
  }
  return absl::OkStatus();
}

std::string SessionHost::MakeCursor(int64_t step) const {
  v1::Cursor cursor;
  cursor.set_generation(session_.generation());
  cursor.set_step(step);
  for (const v1::ProducerCursor& producer : cursors_) {
    *cursor.add_producers() = producer;
  }
  cursor.set_spec_digest(spec_.digest);
  cursor.set_schema_digest(spec_.schema_digest);
  if (last_epoch_) cursor.set_data_epoch(*last_epoch_);
  SealCursor(cursor);
  return SerializeDeterministic(cursor);
}

absl::StatusOr<int64_t> SessionHost::Commit(const v1::Cursor& cursor) {
  CF_RETURN_IF_ERROR(CheckOfThisSession(cursor));
  absl::MutexLock lock(&mu_);
  CF_RETURN_IF_ERROR(session_.Commit(cursor.step()));
  DropFreed();
  NotifyAll();
  return session_.committed_step();
}

absl::Status SessionHost::Seek(const v1::Cursor& cursor) {
  CF_RETURN_IF_ERROR(CheckOfThisSession(cursor));
  std::vector<int64_t> next_sequences;
  std::vector<bool> finished;
  for (const v1::ProducerCursor& producer : cursor.producers()) {
    next_sequences.push_back(producer.next_sequence());
    finished.push_back(producer.finished());
  }
  absl::MutexLock lock(&mu_);
  CF_ASSIGN_OR_RETURN(const bool rewinds,
                      session_.Seek(cursor.step(), next_sequences, finished));
  if (rewinds) {
    cursors_.assign(cursor.producers().begin(), cursor.producers().end());
    steps_.clear();
    waiting_.clear();
    history_.ForgetFrom(cursor.step() + 1);
    last_epoch_.reset();
    if (cursor.has_data_epoch()) last_epoch_ = cursor.data_epoch();
  }
  DropFreed();
  for (const auto& [number, connection] : connections_) {
    if (rewinds || connection.producer < 0) rewound_.insert(number);
  }
  SessionEvent event;
  event.set_kind(v1::EVENT_KIND_REWOUND);
  event.set_step(cursor.step() + 1);
  FillEvent(event);
  events_.Add(std::move(event));
  MarkProgress();
  AnnounceState();
  NotifyAll();
  return absl::OkStatus();
}

void SessionHost::SetDrain(std::optional<absl::Time> deadline) {
  absl::MutexLock lock(&mu_);
  drain_deadline_ = deadline;
  draining_ = deadline.has_value();
  AnnounceState();
  NotifyAll();
}

std::optional<absl::Time> SessionHost::drain_deadline() const {
  if (!draining_) return std::nullopt;
  absl::MutexLock lock(&mu_);
  return drain_deadline_;
}

bool SessionHost::IsSettled(int64_t connection) const {
  absl::MutexLock lock(&mu_);
  for (const Session::Producer& producer : session_.producers()) {
    if (producer.connection != 0) return false;
  }
  for (const Session::Consumer& consumer : session_.consumers()) {
    if (consumer.connection != connection) continue;
    return consumer.acked_step == session_.next_step() - 1;
  }
  return true;  // Fenced.
}

std::string SessionHost::NewestCursor() const {
  absl::MutexLock lock(&mu_);
  return session_.next_step() == 0 ? "" : MakeCursor(session_.next_step() - 1);
}

void SessionHost::Fail(absl::Status status) {
  absl::MutexLock lock(&mu_);
  session_.Fail(std::move(status));
  steps_.clear();
  waiting_.clear();
  AnnounceState();
  NotifyAll();
}

absl::Status SessionHost::Explain(absl::Status status,
                                  int64_t connection) const {
  if (ReasonOf(status) == kFenced && rewound_.contains(connection)) {
    return MakeError(absl::StatusCode::kAborted, kRewound,
                     absl::StrCat("the session went to another step; open "
                                  "again (generation ",
                                  session_.generation(), ")"));
  }
  return status;
}

}  // namespace cpfeed

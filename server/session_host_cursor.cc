// The part of a session that concerns the trainer: cursors, commit, seek, and
// what people see of it.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/wire/batch_codec.h"
#include "core/wire/cursor_codec.h"
#include "google/protobuf/util/time_util.h"
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
  }
  DropFreed();
  for (const auto& [number, connection] : connections_) {
    if (rewinds || connection.producer < 0) rewound_.insert(number);
  }
  NotifyAll();
  return absl::OkStatus();
}

void SessionHost::SetDrain(std::optional<absl::Time> deadline) {
  absl::MutexLock lock(&mu_);
  drain_deadline_ = deadline;
  draining_ = deadline.has_value();
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

bool SessionHost::AllAcked() const {
  absl::MutexLock lock(&mu_);
  return session_.all_acked();
}

void SessionHost::Read(absl::FunctionRef<void(const Session&)> read) const {
  absl::MutexLock lock(&mu_);
  read(session_);
}

int64_t SessionHost::published_steps() const {
  absl::MutexLock lock(&mu_);
  return published_steps_;
}

void SessionHost::FillPositions(v1::Session& proto) const {
  for (const Session::Producer& producer : session_.producers()) {
    v1::ProducerPosition& position = *proto.add_producer_positions();
    position.set_producer(producer.id);
    position.set_next_sequence(producer.next_sequence);
    position.set_connected(producer.connection != 0);
    position.set_finished(producer.finished);
    position.set_incarnation(producer.incarnation);
  }
  const int per_rank = spec_.config.consumers_per_cp_rank;
  for (size_t i = 0; i < session_.consumers().size(); ++i) {
    const Session::Consumer& consumer = session_.consumers()[i];
    v1::ConsumerPosition& position = *proto.add_consumer_positions();
    position.set_cp_rank(static_cast<int>(i) / per_rank);
    position.set_consumer(static_cast<int>(i) % per_rank);
    position.set_acknowledged_step(consumer.acked_step);
    position.set_sent_step(consumer.next_step - 1);
    position.set_connected(consumer.connection != 0);
  }
}

v1::Session SessionHost::ToProto() const {
  v1::Session proto = spec_.session;
  proto.set_name(spec_.name);
  proto.set_spec_digest(spec_.digest);
  *proto.mutable_create_time() =
      google::protobuf::util::TimeUtil::NanosecondsToTimestamp(
          absl::ToUnixNanos(create_time_));
  absl::MutexLock lock(&mu_);
  FillPositions(proto);
  proto.set_generation(session_.generation());
  proto.set_next_step(session_.next_step());
  proto.set_first_held_step(session_.first_held_step());
  proto.set_committed_step(session_.committed_step());
  proto.set_memory_bytes(session_.charged_bytes());
  if (!session_.failure().ok()) {
    proto.set_state(v1::SESSION_STATE_FAILED);
    proto.set_state_detail(session_.failure().ToString());
  } else if (session_.all_finished() && session_.all_acked()) {
    proto.set_state(v1::SESSION_STATE_FINISHED);
  } else if (session_.next_step() > 0) {
    proto.set_state(v1::SESSION_STATE_RUNNING);
  } else {
    proto.set_state(v1::SESSION_STATE_READY);
  }
  return proto;
}

}  // namespace cpfeed

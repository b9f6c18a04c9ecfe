// What people and clocks see of a session: its state, lease and events.

#include <utility>

#include "core/base/status_macros.h"
#include "google/protobuf/util/time_util.h"
#include "server/session_host.h"

namespace cpfeed {

SessionStanding SessionHost::Standing() const {
  return StandingOf(session_, clock_() - progress_at_,
                    DurationOf(current_.delivery().stall_timeout()), draining_);
}

void SessionHost::MarkProgress() { progress_at_ = clock_(); }

void SessionHost::FillEvent(SessionEvent& event) const {
  const SessionStanding standing = Standing();
  event.set_state(standing.state);
  event.set_state_detail(standing.detail);
  event.set_generation(session_.generation());
}

void SessionHost::AnnounceState() {
  SessionStanding standing = Standing();
  if (standing == announced_) return;
  SessionEvent event;
  event.set_kind(v1::EVENT_KIND_STATE);
  event.set_step(session_.next_step());
  FillEvent(event);
  events_.Add(std::move(event));
  announced_ = std::move(standing);
}

void SessionHost::Announce(SessionEvent event) {
  absl::MutexLock lock(&mu_);
  FillEvent(event);
  events_.Add(std::move(event));
}

SessionEvent SessionHost::CurrentEvent() const {
  absl::MutexLock lock(&mu_);
  SessionEvent event;
  event.set_kind(v1::EVENT_KIND_CURRENT);
  event.set_event(events_.newest());
  event.set_step(session_.next_step());
  FillEvent(event);
  return event;
}

absl::Duration SessionHost::Renew() {
  absl::MutexLock lock(&mu_);
  renewed_at_ = clock_();
  const absl::Duration lease = DurationOf(current_.lease_duration());
  return lease == absl::ZeroDuration() ? absl::InfiniteDuration() : lease;
}

bool SessionHost::Tick() {
  absl::MutexLock lock(&mu_);
  AnnounceState();
  const absl::Duration now = clock_();
  if (!connections_.empty()) renewed_at_ = now;
  const absl::Duration lease = DurationOf(current_.lease_duration());
  return lease > absl::ZeroDuration() && now - renewed_at_ >= lease;
}

absl::Status SessionHost::Update(const SessionSpec& spec) {
  absl::MutexLock lock(&mu_);
  CF_RETURN_IF_ERROR(session_.SetLimits(spec.config));
  current_ = spec.session;
  renewed_at_ = clock_();
  SessionEvent event;
  event.set_kind(v1::EVENT_KIND_UPDATED);
  FillEvent(event);
  events_.Add(std::move(event));
  NotifyAll();
  return absl::OkStatus();
}

void SessionHost::End(absl::Status status) {
  Fail(status);
  if (absl::IsNotFound(status)) {
    SessionEvent event;
    event.set_kind(v1::EVENT_KIND_DELETED);
    Announce(std::move(event));
  }
  events_.Close(std::move(status));
}

bool SessionHost::AllAcked() const {
  absl::MutexLock lock(&mu_);
  return session_.all_acked();
}

void SessionHost::Read(
    absl::FunctionRef<void(const Session&, const SessionStanding&)> read)
    const {
  absl::MutexLock lock(&mu_);
  read(session_, Standing());
}

int64_t SessionHost::published_steps() const {
  absl::MutexLock lock(&mu_);
  return published_steps_;
}

int64_t SessionHost::quarantined_batches() const {
  absl::MutexLock lock(&mu_);
  return quarantined_batches_;
}

int64_t SessionHost::memory_budget_bytes() const {
  absl::MutexLock lock(&mu_);
  return session_.config().memory_budget_bytes;
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
  absl::MutexLock lock(&mu_);
  v1::Session proto = current_;
  proto.set_name(spec_.name);
  proto.set_spec_digest(spec_.digest);
  *proto.mutable_create_time() =
      google::protobuf::util::TimeUtil::NanosecondsToTimestamp(
          absl::ToUnixNanos(create_time_));
  FillPositions(proto);
  proto.set_generation(session_.generation());
  proto.set_next_step(session_.next_step());
  proto.set_first_held_step(session_.first_held_step());
  proto.set_committed_step(session_.committed_step());
  proto.set_memory_bytes(session_.charged_bytes());
  const SessionStanding standing = Standing();
  proto.set_state(standing.state);
  proto.set_state_detail(standing.detail);
  return proto;
}

}  // namespace cpfeed

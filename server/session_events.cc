#include "server/session_events.h"

#include <utility>

#include "core/wire/status_codec.h"

namespace cpfeed {

SessionEvent ConsumerEvent(v1::EventKind kind, int cp_rank, int consumer) {
  SessionEvent event;
  event.set_kind(kind);
  event.set_cp_rank(cp_rank);
  event.set_consumer(consumer);
  return event;
}

SessionEvent ProducerEvent(v1::EventKind kind, const std::string& producer) {
  SessionEvent event;
  event.set_kind(kind);
  event.set_producer(producer);
  return event;
}

SessionEvent QuarantineEvent(const std::string& producer, int64_t sequence,
                             const absl::Status& why) {
  SessionEvent event = ProducerEvent(v1::EVENT_KIND_QUARANTINED, producer);
  event.set_sequence(sequence);
  *event.mutable_status() = StatusToProto(why);
  return event;
}

void SessionEvents::Add(SessionEvent event) {
  absl::MutexLock lock(&mu_);
  if (!end_.ok()) return;
  event.set_event(++newest_);
  kept_.push_back(std::move(event));
  if (kept_.size() > most_kept_) kept_.pop_front();
}

void SessionEvents::Close(absl::Status why) {
  absl::MutexLock lock(&mu_);
  if (end_.ok()) end_ = std::move(why);
}

int64_t SessionEvents::newest() const {
  absl::MutexLock lock(&mu_);
  return newest_;
}

SessionEvents::News SessionEvents::WaitPast(int64_t after,
                                            absl::Duration at_most) const {
  const auto ready = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return newest_ > after || !end_.ok();
  };
  absl::MutexLock lock(&mu_);
  mu_.AwaitWithTimeout(absl::Condition(&ready), at_most);
  News news;
  const int64_t first_kept = newest_ + 1 - static_cast<int64_t>(kept_.size());
  if (newest_ > after && after + 1 < first_kept) {
    SessionEvent missed;
    missed.set_event(first_kept - 1);
    missed.set_kind(v1::EVENT_KIND_MISSED);
    news.events.push_back(std::move(missed));
  }
  for (const SessionEvent& event : kept_) {
    if (event.event() > after) news.events.push_back(event);
  }
  if (news.events.empty()) news.end = end_;
  return news;
}

}  // namespace cpfeed

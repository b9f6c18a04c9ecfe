#include "server/session_host.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/wire/cursor_codec.h"
#include "transport/fault_point.h"

namespace cpfeed {

SessionHost::SessionHost(SessionSpec spec, SteadyClock clock)
    : spec_(std::move(spec)),
      create_time_(absl::Now()),
      clock_(std::move(clock)),
      current_(spec_.session),
      session_(spec_.config),
      history_(spec_.history),
      renewed_at_(clock_()),
      progress_at_(renewed_at_) {
  for (const std::string& id : spec_.config.producers) {
    v1::ProducerCursor cursor;
    cursor.set_producer(id);
    cursors_.push_back(std::move(cursor));
  }
}

// ---- Producers ----

absl::StatusOr<SessionHost::OpenedProducer> SessionHost::OpenProducer(
    absl::string_view id, int64_t incarnation, Wakeup* wakeup) {
  absl::MutexLock lock(&mu_);
  CF_ASSIGN_OR_RETURN(const int64_t connection,
                      session_.OpenProducer(id, incarnation));
  NotifyAll();  // A stream that this one fences must see it.
  const int index = FindProducerIndex(connection);
  connections_[connection] = {.wakeup = wakeup, .producer = index};
  OpenedProducer opened{
      .connection = connection,
      .generation = session_.generation(),
      .next_sequence = session_.producers()[index].next_sequence};
  CF_ASSIGN_OR_RETURN(opened.credit_bytes, session_.TakeGrant(connection));
  // Of batches that wait for their turn the newest has the latest state.
  const auto newest = waiting_.find({index, opened.next_sequence - 1});
  const std::string& state = newest != waiting_.end()
                                 ? newest->second.producer_state
                                 : cursors_[index].producer_state();
  if (!state.empty()) opened.producer_state = state;
  return opened;
}

absl::StatusOr<Admission> SessionHost::Admit(int64_t connection,
                                             int64_t sequence, uint64_t digest,
                                             int64_t payload_bytes,
                                             int64_t cost_bytes) {
  absl::MutexLock lock(&mu_);
  auto admission =
      session_.Admit(connection, sequence, digest, payload_bytes, cost_bytes);
  if (!admission.ok()) return Explain(admission.status(), connection);
  MarkProgress();
  return admission;
}

absl::StatusOr<bool> SessionHost::Recharge(int64_t connection, int64_t sequence,
                                           int64_t cost_bytes) {
  absl::MutexLock lock(&mu_);
  auto charged = session_.Recharge(connection, sequence, cost_bytes);
  if (!charged.ok()) return Explain(charged.status(), connection);
  return charged;
}

absl::Status SessionHost::Complete(int64_t connection, int64_t sequence,
                                   int64_t cost_bytes, ConvertedBatch batch) {
  absl::MutexLock lock(&mu_);
  auto published = session_.Complete(connection, sequence, cost_bytes);
  if (!published.ok()) return Explain(published.status(), connection);
  waiting_[{FindProducerIndex(connection), sequence}] = std::move(batch);
  HoldPublished(*published);
  return absl::OkStatus();
}

absl::Status SessionHost::Quarantine(int64_t connection, int64_t sequence,
                                     ConvertedBatch batch,
                                     const absl::Status& why) {
  {
    absl::MutexLock lock(&mu_);
    ++quarantined_batches_;
    const auto found = connections_.find(connection);
    if (found == connections_.end()) return why;
    const int producer = found->second.producer;
    SessionEvent event =
        QuarantineEvent(spec_.config.producers[producer], sequence, why);
    FillEvent(event);
    events_.Add(std::move(event));
    if (current_.delivery().poison_policy() == v1::POISON_POLICY_SKIP_STEP) {
      batch.poison = why;
      auto published = session_.Complete(connection, sequence, 0);
      if (!published.ok()) return Explain(published.status(), connection);
      waiting_[{producer, sequence}] = std::move(batch);
      HoldPublished(*published);
      return absl::OkStatus();
    }
  }
  Fail(why);
  return why;
}

absl::Status SessionHost::Reject(int64_t connection, int64_t sequence) {
  absl::MutexLock lock(&mu_);
  const absl::Status status = session_.Reject(connection, sequence);
  NotifyAll();
  return Explain(status, connection);
}

absl::Status SessionHost::Refuse(int64_t connection, int64_t payload_bytes) {
  absl::MutexLock lock(&mu_);
  return Explain(session_.Refuse(connection, payload_bytes), connection);
}

absl::Status SessionHost::Finish(int64_t connection, int64_t num_batches) {
  absl::MutexLock lock(&mu_);
  auto published = session_.Finish(connection, num_batches);
  if (!published.ok()) return Explain(published.status(), connection);
  cursors_[FindProducerIndex(connection)].set_finished(true);
  HoldPublished(*published);
  return absl::OkStatus();
}

void SessionHost::CloseProducer(int64_t connection) {
  absl::MutexLock lock(&mu_);
  session_.CloseProducer(connection);
  connections_.erase(connection);
  rewound_.erase(connection);
  NotifyAll();
}

absl::StatusOr<int64_t> SessionHost::TakeGrant(int64_t connection) {
  absl::MutexLock lock(&mu_);
  auto grant = session_.TakeGrant(connection);
  if (!grant.ok()) return Explain(grant.status(), connection);
  return grant;
}

std::vector<SessionHost::SettledBatch> SessionHost::TakePublished(
    int64_t connection) {
  absl::MutexLock lock(&mu_);
  const auto found = connections_.find(connection);
  if (found == connections_.end()) return {};
  return std::exchange(found->second.published, {});
}

bool SessionHost::IsDrained(int64_t connection) const {
  absl::MutexLock lock(&mu_);
  for (const Session::Producer& producer : session_.producers()) {
    if (producer.connection != connection) continue;
    return producer.finished && producer.waiting.empty();
  }
  return false;
}

std::optional<int64_t> SessionHost::NumSteps() const {
  absl::MutexLock lock(&mu_);
  if (!session_.all_finished()) return std::nullopt;
  return session_.next_step();
}

// Gives the published batches their step numbers, and those who wait the news.
void SessionHost::HoldPublished(const std::vector<PublishedStep>& published) {
  published_steps_ += static_cast<int64_t>(published.size());
  for (const PublishedStep& step : published) {
    FaultPoint("publish");
    auto node = waiting_.extract({step.producer, step.sequence});
    CF_CHECK(!node.empty());
    v1::ProducerCursor& cursor = cursors_[step.producer];
    cursor.set_next_sequence(step.sequence + 1);
    cursor.set_producer_state(node.mapped().producer_state);
    auto held =
        std::make_shared<HeldStep>(HeldStep{.step = step.step,
                                            .producer = cursor.producer(),
                                            .sequence = step.sequence,
                                            .batch = std::move(node.mapped())});
    if (last_epoch_ && *last_epoch_ != held->batch.data_epoch) {
      held->ended_epoch = last_epoch_;
    }
    last_epoch_ = held->batch.data_epoch;
    held->cursor = MakeCursor(step.step);
    history_.Add({.step = step.step,
                  .producer = held->producer,
                  .sequence = step.sequence,
                  .batch_id = held->batch.batch_id,
                  .data_epoch = held->batch.data_epoch,
                  .plans = held->batch.plans});
    const absl::Status poison = held->batch.poison;
    steps_[step.step] = std::move(held);
    const int64_t connection = session_.producers()[step.producer].connection;
    const auto found = connections_.find(connection);
    if (found != connections_.end()) {
      found->second.published.push_back({step, poison});
    }
  }
  MarkProgress();
  AnnounceState();
  NotifyAll();
}

// ---- Consumers ----

absl::StatusOr<SessionHost::AttachedConsumer> SessionHost::Attach(
    int cp_rank, int consumer, int64_t incarnation, int64_t generation,
    std::optional<int64_t> first_step, Wakeup* wakeup) {
  absl::MutexLock lock(&mu_);
  CF_ASSIGN_OR_RETURN(
      const int64_t connection,
      session_.Attach(cp_rank, consumer, incarnation, generation, first_step));
  connections_[connection] = {.wakeup = wakeup};
  DropFreed();
  NotifyAll();
  const Session::Consumer& state =
      session_
          .consumers()[cp_rank * spec_.config.consumers_per_cp_rank + consumer];
  return AttachedConsumer{.connection = connection,
                          .generation = session_.generation(),
                          .first_step = state.next_step,
                          .redelivered_steps = std::max<int64_t>(
                              state.first_unsent - state.next_step, 0)};
}

absl::StatusOr<Delivery> SessionHost::Next(int64_t connection) const {
  absl::MutexLock lock(&mu_);
  auto delivery = session_.Next(connection);
  if (!delivery.ok()) return Explain(delivery.status(), connection);
  return delivery;
}

absl::StatusOr<bool> SessionHost::TrySend(int64_t connection, int64_t bytes) {
  absl::MutexLock lock(&mu_);
  auto sent = session_.TrySend(connection, bytes);
  if (!sent.ok()) return Explain(sent.status(), connection);
  return sent;
}

absl::Status SessionHost::AddCredit(int64_t connection, int64_t bytes) {
  absl::MutexLock lock(&mu_);
  const absl::Status status = session_.AddCredit(connection, bytes);
  const auto found = connections_.find(connection);
  if (found != connections_.end()) found->second.wakeup->Notify();
  return Explain(status, connection);
}

absl::Status SessionHost::Ack(int64_t connection, int64_t through_step) {
  absl::MutexLock lock(&mu_);
  const int64_t first_held = session_.first_held_step();
  const absl::Status status = session_.Ack(connection, through_step);
  MarkProgress();
  // Only the slowest consumer's acknowledgement changes what others may do.
  if (session_.first_held_step() != first_held) {
    DropFreed();
    if (session_.all_finished()) AnnounceState();
    NotifyAll();
  } else if (const auto found = connections_.find(connection);
             found != connections_.end()) {
    found->second.wakeup->Notify();
  }
  return Explain(status, connection);
}

void SessionHost::CloseConsumer(int64_t connection) {
  absl::MutexLock lock(&mu_);
  session_.CloseConsumer(connection);
  connections_.erase(connection);
  rewound_.erase(connection);
}

std::shared_ptr<const HeldStep> SessionHost::FindStep(int64_t step) const {
  absl::MutexLock lock(&mu_);
  const auto found = steps_.find(step);
  return found == steps_.end() ? nullptr : found->second;
}

std::shared_ptr<const StepRecord> SessionHost::FindRecord(int64_t step) const {
  absl::MutexLock lock(&mu_);
  return history_.Find(step);
}

std::shared_ptr<const StepRecord> SessionHost::NewestRecord() const {
  absl::MutexLock lock(&mu_);
  return history_.Newest();
}

void SessionHost::DropFreed() {
  steps_.erase(steps_.begin(), steps_.lower_bound(session_.first_held_step()));
}

void SessionHost::NotifyAll() {
  for (auto& [number, connection] : connections_) connection.wakeup->Notify();
}

int SessionHost::FindProducerIndex(int64_t connection) const {
  const auto& producers = session_.producers();
  const auto found =
      std::find_if(producers.begin(), producers.end(),
                   [&](const auto& p) { return p.connection == connection; });
  CF_CHECK(found != producers.end());
  return static_cast<int>(found - producers.begin());
}

}  // namespace cpfeed

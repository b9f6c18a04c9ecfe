// Consumers: order, skew, credit, acknowledgements.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/session/session.h"

namespace cpfeed {

absl::StatusOr<const Session::Consumer*> ConsumerSide::FindConsumer(
    int64_t connection) const {
  CF_RETURN_IF_ERROR(failure_);
  for (const Consumer& consumer : consumers_) {
    if (consumer.connection == connection && connection != 0) return &consumer;
  }
  return MakeError(absl::StatusCode::kAborted, kFenced,
                   "the consumer's stream is fenced; a newer one was attached, "
                   "or the session went to a cursor");
}

absl::StatusOr<Session::Consumer*> ConsumerSide::FindConsumer(
    int64_t connection) {
  CF_ASSIGN_OR_RETURN(
      const Consumer* consumer,
      static_cast<const ConsumerSide*>(this)->FindConsumer(connection));
  return const_cast<Consumer*>(consumer);
}

absl::StatusOr<int64_t> ConsumerSide::Attach(
    int cp_rank, int consumer_number, int64_t incarnation, int64_t generation,
    std::optional<int64_t> first_step) {
  CF_RETURN_IF_ERROR(failure_);
  if (cp_rank < 0 || cp_rank >= config_.cp_size || consumer_number < 0 ||
      consumer_number >= config_.consumers_per_cp_rank) {
    return InvalidArgument(
        kTopologyMismatch,
        absl::StrCat("consumer ", consumer_number, " of cp_rank ", cp_rank,
                     "; cp_rank must be below ", config_.cp_size,
                     ", consumer below ", config_.consumers_per_cp_rank));
  }
  Consumer& consumer =
      consumers_[cp_rank * config_.consumers_per_cp_rank + consumer_number];
  if (generation != 0 && generation != generation_) {
    return MakeError(absl::StatusCode::kAborted, kFenced,
                     absl::StrCat("generation is ", generation,
                                  "; the session's is ", generation_));
  }
  if (incarnation < consumer.incarnation) {
    return MakeError(
        absl::StatusCode::kAborted, kFenced,
        absl::StrCat("incarnation is ", incarnation, "; incarnation ",
                     consumer.incarnation, " attached before"));
  }
  const int64_t first = first_step.value_or(consumer.acked_step + 1);
  if (first < first_held_step_) {
    return MakeError(absl::StatusCode::kOutOfRange, kCursorExpired,
                     absl::StrCat("step ", first,
                                  " is freed; the first held "
                                  "one is ",
                                  first_held_step_));
  }
  if (first > consumer.first_unsent) {
    return MakeError(absl::StatusCode::kFailedPrecondition, kCursorMismatch,
                     absl::StrCat("first_step is ", first, "; must be at most ",
                                  consumer.first_unsent,
                                  ", the first that consumer ", consumer_number,
                                  " of cp_rank ", cp_rank, " was not sent"));
  }
  consumer.incarnation = incarnation;
  consumer.connection = ++last_connection_;
  consumer.acked_step = first - 1;
  consumer.next_step = first;
  consumer.credit_bytes = 0;
  FreeSteps();
  return consumer.connection;
}

absl::StatusOr<Delivery> ConsumerSide::Next(int64_t connection) const {
  CF_ASSIGN_OR_RETURN(const Consumer* consumer, FindConsumer(connection));
  if (consumer->next_step == next_step_) {
    if (!all_finished()) return Delivery{};
    return Delivery{.kind = Delivery::Kind::kEnd, .step = next_step_};
  }
  if (consumer->next_step > SlowestAckedStep() + config_.max_step_skew) {
    return Delivery{};
  }
  return Delivery{.kind = Delivery::Kind::kStep, .step = consumer->next_step};
}

absl::StatusOr<bool> ConsumerSide::TrySend(int64_t connection, int64_t bytes) {
  CF_ASSIGN_OR_RETURN(const Delivery delivery, Next(connection));
  if (delivery.kind != Delivery::Kind::kStep) return false;
  CF_ASSIGN_OR_RETURN(Consumer * consumer, FindConsumer(connection));
  const bool holds_nothing = consumer->acked_step + 1 == consumer->next_step;
  if (bytes > consumer->credit_bytes && !holds_nothing) return false;
  consumer->credit_bytes -= bytes;
  ++consumer->next_step;
  consumer->first_unsent =
      std::max(consumer->first_unsent, consumer->next_step);
  return true;
}

absl::Status ConsumerSide::AddCredit(int64_t connection, int64_t bytes) {
  CF_ASSIGN_OR_RETURN(Consumer * consumer, FindConsumer(connection));
  constexpr int64_t kMostCredit = int64_t{1} << 50;
  if (bytes < 0 || bytes > kMostCredit - consumer->credit_bytes) {
    return InvalidArgument(kProtocolError,
                           absl::StrCat("credit of ", bytes,
                                        " bytes; must be 0 to ", kMostCredit));
  }
  consumer->credit_bytes += bytes;
  return absl::OkStatus();
}

absl::Status ConsumerSide::Ack(int64_t connection, int64_t through_step) {
  CF_ASSIGN_OR_RETURN(Consumer * consumer, FindConsumer(connection));
  if (through_step >= consumer->next_step) {
    return InvalidArgument(
        kProtocolError, absl::StrCat("step ", through_step,
                                     " is acknowledged; the last one sent is ",
                                     consumer->next_step - 1));
  }
  consumer->acked_step = std::max(consumer->acked_step, through_step);
  FreeSteps();
  return absl::OkStatus();
}

void ConsumerSide::CloseConsumer(int64_t connection) {
  if (connection == 0) return;
  for (Consumer& consumer : consumers_) {
    if (consumer.connection == connection) consumer.connection = 0;
  }
}

int64_t SessionBooks::SlowestAckedStep() const {
  int64_t slowest = consumers_[0].acked_step;
  for (const Consumer& consumer : consumers_) {
    slowest = std::min(slowest, consumer.acked_step);
  }
  return slowest;
}

void SessionBooks::FreeSteps() {
  int64_t first_needed = SlowestAckedStep() + 1;
  if (config_.retention == Retention::kRetain) {
    first_needed = std::min(first_needed, committed_step_ + 1);
  }
  while (first_held_step_ < first_needed) {
    charged_bytes_ -= held_cost_bytes_.front();
    held_cost_bytes_.pop_front();
    ++first_held_step_;
  }
  RefillCredits();
}

}  // namespace cpfeed

// The session as a whole: commit, seek, failure, books.

#include "core/session/session.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

// Batches follow each other: waiting, then under way.
std::string CheckProducer(const Session::Producer& producer) {
  int64_t charged = 0;
  int64_t sequence =
      producer.next_sequence - static_cast<int64_t>(producer.waiting.size());
  for (const auto* batches : {&producer.waiting, &producer.receiving}) {
    for (const Session::Producer::Batch& batch : *batches) {
      if (batch.sequence != sequence) {
        return absl::StrCat("producer ", producer.id, " has sequence ",
                            batch.sequence, " in place of ", sequence);
      }
      ++sequence;
      charged += batch.cost_bytes;
    }
  }
  if (charged != producer.charged_bytes) {
    return absl::StrCat("producer ", producer.id, " is charged ",
                        producer.charged_bytes, ", its batches cost ", charged);
  }
  if (producer.credit_bytes < 0) return "credit is negative";
  return "";
}

std::string CheckConsumer(const Session::Consumer& consumer,
                          int64_t first_held_step, int64_t next_step) {
  if (consumer.acked_step >= consumer.next_step ||
      consumer.next_step > next_step) {
    return absl::StrCat("consumer acknowledged ", consumer.acked_step,
                        " of [0, ", consumer.next_step, ") of [0, ", next_step,
                        ")");
  }
  if (consumer.acked_step + 1 < first_held_step) {
    return absl::StrCat("step ", consumer.acked_step + 1,
                        " is freed but not acknowledged");
  }
  return "";
}

// So that numbers that count up from a cursor's stay far from the end of int64.
constexpr int64_t kMostSteps = int64_t{1} << 53;

absl::Status CheckSeek(int64_t step, const std::vector<int64_t>& next_sequences,
                       const std::vector<bool>& finished,
                       size_t num_producers) {
  if (next_sequences.size() != num_producers ||
      finished.size() != num_producers) {
    return InvalidArgument(
        kCursorMismatch,
        absl::StrCat("cursor has ", next_sequences.size(),
                     " producers; the session has ", num_producers));
  }
  if (step < -1 || step > kMostSteps) {
    return InvalidArgument(kCursorMismatch,
                           absl::StrCat("cursor is behind step ", step,
                                        "; must be -1 to ", kMostSteps));
  }
  for (const int64_t sequence : next_sequences) {
    if (sequence >= 0 && sequence <= kMostSteps) continue;
    return InvalidArgument(
        kCursorMismatch, absl::StrCat("next_sequence of a producer is ",
                                      sequence, "; must be 0 to ", kMostSteps));
  }
  return absl::OkStatus();
}

// What was published before says which sequences lie before a step: a cursor
// that says otherwise would lose batches, or publish them twice.
absl::Status CheckCursorOf(const Session::Producer& producer, int64_t step,
                           int64_t next_sequence) {
  for (const auto& [sequence, known] : producer.known) {
    if (known.step < 0) continue;
    if ((known.step <= step) == (sequence < next_sequence)) continue;
    return InvalidArgument(
        kCursorMismatch,
        absl::StrCat("cursor behind step ", step, " has next_sequence ",
                     next_sequence, " of producer ", producer.id,
                     "; its sequence ", sequence, " was step ", known.step));
  }
  return absl::OkStatus();
}

}  // namespace

SessionBooks::SessionBooks(SessionConfig config) : config_(std::move(config)) {
  for (const std::string& id : config_.producers) {
    producers_.push_back({.id = id});
  }
  consumers_.resize(config_.num_consumers());
  RefillCredits();
}

Session::Session(SessionConfig config) : ConsumerSide(std::move(config)) {}

absl::Status Session::Commit(int64_t step) {
  CF_RETURN_IF_ERROR(failure_);
  if (step >= next_step_) {
    return MakeError(
        absl::StatusCode::kOutOfRange, kCursorMismatch,
        absl::StrCat("step ", step, " is committed; the last published one is ",
                     next_step_ - 1));
  }
  if (step <= committed_step_) return absl::OkStatus();
  committed_step_ = step;
  for (Producer& producer : producers_) {
    std::erase_if(producer.known, [&](const auto& known) {
      return known.second.step >= 0 && known.second.step <= step;
    });
  }
  FreeSteps();
  return absl::OkStatus();
}

absl::StatusOr<bool> Session::Seek(int64_t step,
                                   const std::vector<int64_t>& next_sequences,
                                   const std::vector<bool>& finished) {
  CF_RETURN_IF_ERROR(failure_);
  CF_RETURN_IF_ERROR(
      CheckSeek(step, next_sequences, finished, producers_.size()));
  const bool retain = config_.retention == Retention::kRetain;
  if (retain && step + 1 < first_held_step_) {
    return MakeError(
        absl::StatusCode::kOutOfRange, kCursorExpired,
        absl::StrCat("cursor is behind step ", step, "; the first held one is ",
                     first_held_step_,
                     " and retention RETAIN cannot ask producers to replay"));
  }
  const bool rewinds = !retain || step + 1 > next_step_;
  for (size_t i = 0; rewinds && i < producers_.size(); ++i) {
    CF_RETURN_IF_ERROR(CheckCursorOf(producers_[i], step, next_sequences[i]));
  }
  ++generation_;
  for (Consumer& consumer : consumers_) {
    consumer.connection = 0;
    consumer.acked_step = step;
    consumer.next_step = consumer.first_unsent = step + 1;
    consumer.credit_bytes = 0;
  }
  committed_step_ = std::min(committed_step_, step);
  if (rewinds) {
    held_cost_bytes_.clear();
    charged_bytes_ = 0;
    first_held_step_ = next_step_ = step + 1;
    RewindProducers(next_sequences, finished);
  }
  FreeSteps();
  return rewinds;
}

void Session::RewindProducers(const std::vector<int64_t>& next_sequences,
                              const std::vector<bool>& finished) {
  for (size_t i = 0; i < producers_.size(); ++i) {
    Producer& producer = producers_[i];
    producer.receiving.clear();
    producer.waiting.clear();
    producer.charged_bytes = 0;
    producer.next_sequence = next_sequences[i];
    for (auto& [sequence, known] : producer.known) {
      if (sequence >= producer.next_sequence) known.step = -1;
    }
    producer.finished = finished[i];
    producer.credit_bytes = 0;
    producer.pending_grant_bytes = 0;
    producer.connection = 0;
  }
  // Turns go round those that have not finished, so of them the first with the
  // fewest batches is next.
  turn_ = 0;
  for (size_t i = 0; i < producers_.size(); ++i) {
    const Producer& best = producers_[turn_];
    if (producers_[i].finished) continue;
    if (best.finished || next_sequences[i] < best.next_sequence) {
      turn_ = static_cast<int>(i);
    }
  }
}

void Session::Fail(absl::Status status) {
  if (failure_.ok()) failure_ = std::move(status);
}

bool SessionBooks::all_finished() const {
  return std::all_of(producers_.begin(), producers_.end(),
                     [](const Producer& producer) {
                       return producer.finished && producer.waiting.empty();
                     });
}

bool SessionBooks::all_acked() const {
  return SlowestAckedStep() + 1 == next_step_;
}

std::string SessionBooks::CheckInvariants() const {
  int64_t charged = std::accumulate(held_cost_bytes_.begin(),
                                    held_cost_bytes_.end(), int64_t{0});
  for (const Producer& producer : producers_) {
    const std::string wrong = CheckProducer(producer);
    if (!wrong.empty()) return wrong;
    charged += producer.charged_bytes;
  }
  if (charged != charged_bytes_) {
    return absl::StrCat("charged ", charged_bytes_, ", batches cost ", charged);
  }
  if (charged_bytes_ + reserved_bytes() > config_.memory_budget_bytes) {
    return absl::StrCat("charged ", charged_bytes_, " and promised ",
                        reserved_bytes(), " of ", config_.memory_budget_bytes);
  }
  if (static_cast<int64_t>(held_cost_bytes_.size()) !=
      next_step_ - first_held_step_) {
    return "held steps are not [first_held_step, next_step)";
  }
  for (const Consumer& consumer : consumers_) {
    const std::string wrong =
        CheckConsumer(consumer, first_held_step_, next_step_);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

}  // namespace cpfeed

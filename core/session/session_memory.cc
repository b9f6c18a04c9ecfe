// Memory: what may be charged and promised, and to whom.
//
// Held steps, batches under way and waiting, and credit together never exceed
// the budget. Steps are freed by consumers alone, but a batch that waits for
// its turn is freed only after the producers before it have sent theirs. So
// that these can never lack the memory, every producer that has not finished
// has a claim to one largest batch, and nobody gets what others claim: once the
// held steps are acknowledged, whoever has the turn gets credit for any batch.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/session/session.h"

namespace cpfeed {
namespace {

// What a producer's unpublished batches and its credit take.
int64_t Footprint(const Session::Producer& producer) {
  return producer.charged_bytes + producer.credit_bytes * kCostPerPayloadByte;
}

int64_t LargestBatch(const SessionConfig& config) {
  return config.max_batch_bytes * kCostPerPayloadByte;
}

// Room for the steps that the trainer may leave uncommitted.
int64_t KeptForTrainer(const SessionConfig& config) {
  if (config.retention != Retention::kRetain) return 0;
  return config.max_uncommitted_steps * LargestBatch(config);
}

absl::Status TooLarge(int64_t cost_bytes, int64_t most,
                      const SessionConfig& config) {
  return InvalidArgument(
      kBatchTooLarge, absl::StrCat("batch needs ", cost_bytes,
                                   " bytes when converted; must be at most ",
                                   most, " of the session's memory budget of ",
                                   config.memory_budget_bytes));
}

}  // namespace

int64_t SessionBooks::reserved_bytes() const {
  int64_t payload = 0;
  for (const Producer& producer : producers_) payload += producer.credit_bytes;
  return payload * kCostPerPayloadByte;
}

void SessionBooks::Charge(Producer& producer, int64_t bytes) {
  producer.charged_bytes += bytes;
  charged_bytes_ += bytes;
}

// What nobody but `producer` may take.
int64_t SessionBooks::ReserveOf(const Producer& producer) const {
  return producer.finished ? 0 : LargestBatch(config_);
}

int64_t SessionBooks::ClaimedBytes() const {
  int64_t claimed = KeptForTrainer(config_);
  for (const Producer& producer : producers_) {
    claimed += std::max(Footprint(producer), ReserveOf(producer));
  }
  return claimed;
}

// What may be given beyond reserves. One largest batch stays free, so that a
// small batch into which auto_pad inserts much can grow.
int64_t SessionBooks::RoomForMore() const {
  return std::max<int64_t>(
      config_.memory_budget_bytes - LargestBatch(config_) - ClaimedBytes(), 0);
}

// Whoever has the turn is served first. All get their reserve before anybody
// gets more; credit for a second batch keeps a stream full while the first one
// is converted.
void SessionBooks::RefillCredits() {
  struct Round {
    int64_t target;
    bool beyond_reserve;
  };
  const int64_t largest = config_.max_batch_bytes;
  int64_t free =
      config_.memory_budget_bytes - charged_bytes_ - reserved_bytes();
  int64_t more = RoomForMore();
  const int count = static_cast<int>(producers_.size());
  for (const Round round : {Round{largest, false}, Round{largest, true},
                            Round{2 * largest, true}}) {
    for (int i = 0; i < count; ++i) {
      Producer& producer = producers_[(turn_ + i) % count];
      const int64_t own =
          std::max<int64_t>(ReserveOf(producer) - Footprint(producer), 0);
      const int64_t room =
          std::min(free, own + (round.beyond_reserve ? more : 0));
      const int64_t grant = std::min(round.target - producer.credit_bytes,
                                     room / kCostPerPayloadByte);
      if (grant <= 0 || producer.finished) continue;
      producer.credit_bytes += grant;
      producer.pending_grant_bytes += grant;
      free -= grant * kCostPerPayloadByte;
      more -= std::max<int64_t>(grant * kCostPerPayloadByte - own, 0);
    }
  }
}

absl::Status Session::SetLimits(const SessionConfig& limits) {
  CF_RETURN_IF_ERROR(failure_);
  SessionConfig config = config_;
  config.max_step_skew = limits.max_step_skew;
  config.max_uncommitted_steps = limits.max_uncommitted_steps;
  config.memory_budget_bytes = limits.memory_budget_bytes;
  CF_RETURN_IF_ERROR(ValidateConfig(config));
  std::swap(config_, config);
  const int64_t needed =
      std::max(charged_bytes_ + reserved_bytes(), ClaimedBytes());
  if (needed > config_.memory_budget_bytes) {
    const int64_t asked = config_.memory_budget_bytes;
    std::swap(config_, config);
    return MakeError(
        absl::StatusCode::kResourceExhausted, kMemoryPressure,
        absl::StrCat("limits.memory_budget_bytes is ", asked,
                     "; the session has promised or holds ", needed,
                     " bytes; try again when consumers have read"));
  }
  RefillCredits();
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ProducerSide::TakeGrant(int64_t connection) {
  CF_ASSIGN_OR_RETURN(Producer * producer, FindProducer(connection));
  return std::exchange(producer->pending_grant_bytes, 0);
}

absl::Status ProducerSide::Refuse(int64_t connection, int64_t payload_bytes) {
  CF_ASSIGN_OR_RETURN(Producer * producer, FindProducer(connection));
  producer->pending_grant_bytes += payload_bytes;
  return absl::OkStatus();
}

// Whether completing `batch` publishes it.
bool ProducerSide::IsNextStep(const Producer& producer,
                              const Producer::Batch& batch) const {
  return &producer == &producers_[turn_] && producer.waiting.empty() &&
         batch.sequence == producer.next_sequence;
}

// Whether held steps will be freed though no further one is published.
bool ProducerSide::WillFreeSteps() const {
  if (config_.retention == Retention::kReplay) return !held_cost_bytes_.empty();
  return first_held_step_ <= committed_step_ ||
         next_step_ - 1 - committed_step_ >= config_.max_uncommitted_steps;
}

// A batch that is the next step may use all memory that is free, for it gives
// it back; another one must leave what the producers before it claim.
absl::StatusOr<bool> ProducerSide::MayGrow(const Producer& producer,
                                           const Producer::Batch& batch,
                                           int64_t more) const {
  const int64_t cost = batch.cost_bytes + more;
  int64_t most = config_.memory_budget_bytes - KeptForTrainer(config_) +
                 ReserveOf(producer);
  for (const Producer& other : producers_) most -= ReserveOf(other);
  if (config_.retention == Retention::kRetain) {
    most = std::min(most, LargestBatch(config_));
  }
  if (cost > most) return TooLarge(cost, most, config_);
  const int64_t free =
      config_.memory_budget_bytes - charged_bytes_ - reserved_bytes();
  if (IsNextStep(producer, batch)) {
    if (more <= free || WillFreeSteps()) return more <= free;
    return TooLarge(cost, batch.cost_bytes + free, config_);
  }
  const int64_t own =
      std::max<int64_t>(ReserveOf(producer) - Footprint(producer), 0);
  return more <= free && more <= own + RoomForMore();
}

absl::StatusOr<bool> ProducerSide::Recharge(int64_t connection,
                                            int64_t sequence,
                                            int64_t cost_bytes) {
  CF_ASSIGN_OR_RETURN(Producer * producer, FindProducer(connection));
  CF_ASSIGN_OR_RETURN(Producer::Batch * batch,
                      FindReceiving(*producer, sequence));
  const int64_t more = cost_bytes - batch->cost_bytes;
  if (more > 0) {
    CF_ASSIGN_OR_RETURN(const bool fits, MayGrow(*producer, *batch, more));
    if (!fits) return false;
  }
  Charge(*producer, more);
  batch->cost_bytes = cost_bytes;
  if (more < 0) RefillCredits();
  return true;
}

}  // namespace cpfeed

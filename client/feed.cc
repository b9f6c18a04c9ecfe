#include "client/feed.h"

#include <deque>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "client/session_client.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(200);

// Batches that were sent and have no receipt. The feeder's thread takes out
// what has one.
class Unconfirmed {
 public:
  using Entry = std::pair<int64_t, OutgoingBatch>;

  void Add(int64_t sequence, const OutgoingBatch& batch) {
    absl::MutexLock lock(&mu_);
    sent_.push_back({sequence, batch});
  }

  void OnReceipt(const v1::BatchReceipt& receipt) {
    if (receipt.outcome() == v1::BatchReceipt::OUTCOME_REJECTED) return;
    absl::MutexLock lock(&mu_);
    progress_ = true;
    DropBelow(receipt.sequence() + 1);
  }

  // Those from `sequence` on, where all of them up to `next` are there.
  std::optional<std::deque<Entry>> From(int64_t sequence, int64_t next) {
    absl::MutexLock lock(&mu_);
    DropBelow(sequence);
    std::deque<Entry> rest = std::exchange(sent_, {});
    if (static_cast<int64_t>(rest.size()) != next - sequence) {
      return std::nullopt;
    }
    return rest;
  }

  // Whether a receipt came since the last call.
  bool TakeProgress() {
    absl::MutexLock lock(&mu_);
    return std::exchange(progress_, false);
  }

 private:
  void DropBelow(int64_t sequence) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    while (!sent_.empty() && sent_.front().first < sequence) sent_.pop_front();
  }

  absl::Mutex mu_;
  std::deque<Entry> sent_ ABSL_GUARDED_BY(mu_);
  bool progress_ ABSL_GUARDED_BY(mu_) = false;
};

class FeedLoop {
 public:
  FeedLoop(std::shared_ptr<grpc::Channel> channel, FeedSettings settings,
           const BatchStream& source)
      : channel_(std::move(channel)),
        options_(std::move(settings.stream)),
        create_(std::move(settings.create)),
        until_read_(settings.until_read),
        source_(source) {
    if (options_.incarnation == 0) {
      options_.incarnation = absl::ToUnixNanos(absl::Now());
    }
    options_.on_receipt = [this, told = std::move(options_.on_receipt)](
                              const v1::BatchReceipt& receipt) {
      unconfirmed_.OnReceipt(receipt);
      if (told) told(receipt);
    };
  }

  absl::StatusOr<FedTotals> Run(RetryPolicy& policy) {
    while (true) {
      const absl::Status status = RunOnce();
      // The source's errors are the caller's: nothing to try again.
      if (source_failed_) return status;
      if (unconfirmed_.TakeProgress()) policy.MarkProgress();
      if (status.ok()) {
        if (!until_read_) return totals_;
        CF_ASSIGN_OR_RETURN(const bool wanted, WaitUntilReadOrWanted(policy));
        if (!wanted) return totals_;
      } else {
        CF_RETURN_IF_ERROR(policy.PauseOrGiveUp(status));
      }
      ++options_.incarnation;
      ++totals_.resumed;
    }
  }

 private:
  absl::Status RunOnce() {
    if (create_) {
      CF_RETURN_IF_ERROR(CreateSession(channel_, *create_).status());
    }
    CF_ASSIGN_OR_RETURN(const std::unique_ptr<Feeder> feeder,
                        Feeder::Open(channel_, options_));
    while (true) {
      const absl::Status status = PutAll(*feeder);
      if (ReasonOf(status) != kRewound || source_failed_) return status;
      if (!feeder->Follow()) return status;
      ++totals_.rewound;
    }
  }

  absl::Status PutAll(Feeder& feeder) {
    CF_RETURN_IF_ERROR(GoTo(feeder));
    while (true) {
      absl::StatusOr<std::optional<OutgoingBatch>> batch = source_.next();
      source_failed_ = !batch.ok();
      CF_RETURN_IF_ERROR(batch.status());
      if (!batch->has_value()) break;
      const int64_t sequence = next_++;
      unconfirmed_.Add(sequence, **batch);
      CF_RETURN_IF_ERROR(feeder.Put((*batch)->batch, (*batch)->info));
    }
    CF_ASSIGN_OR_RETURN(totals_.num_steps, feeder.Finish());
    totals_.num_batches = next_;
    return absl::OkStatus();
  }

  // Whether the session wants batches again.
  absl::StatusOr<bool> WaitUntilReadOrWanted(RetryPolicy& policy) {
    while (true) {
      const absl::StatusOr<v1::Session> session = FindSession();
      if (absl::IsNotFound(session.status())) {
        return create_ && ReasonOf(session.status()) == kSessionNotFound;
      }
      if (!session.ok()) {
        CF_RETURN_IF_ERROR(policy.PauseOrGiveUp(session.status()));
        continue;
      }
      policy.MarkProgress();
      if (session->state() == v1::SESSION_STATE_FAILED ||
          session->state() == v1::SESSION_STATE_FINISHED) {
        return false;
      }
      for (const v1::ProducerPosition& producer :
           session->producer_positions()) {
        if (producer.producer() == options_.producer && !producer.finished()) {
          return true;
        }
      }
      absl::SleepFor(kPoll);
    }
  }

  absl::StatusOr<v1::Session> FindSession() const {
    if (create_) return GetSession(channel_, options_.session);
    return WaitForSession(channel_, options_.session, options_.session_wait);
  }

  absl::Status GoTo(Feeder& feeder) {
    const int64_t wanted = feeder.next_sequence();
    if (next_ >= wanted) {
      auto again = unconfirmed_.From(wanted, next_);
      if (again) {
        // All are remembered before any is sent: the stream may break again.
        for (const auto& [sequence, batch] : *again) {
          unconfirmed_.Add(sequence, batch);
        }
        for (const auto& [sequence, batch] : *again) {
          CF_RETURN_IF_ERROR(feeder.Put(batch.batch, batch.info));
        }
        return absl::OkStatus();
      }
    }
    const absl::Status status = source_.go_to(wanted, feeder.producer_state());
    source_failed_ = !status.ok();
    next_ = wanted;
    return status;
  }

  const std::shared_ptr<grpc::Channel> channel_;
  FeederOptions options_;
  const std::optional<v1::CreateSessionRequest> create_;
  const bool until_read_;
  const BatchStream& source_;
  Unconfirmed unconfirmed_;
  int64_t next_ = -1;  // The number of the source's next batch.
  bool source_failed_ = false;
  FedTotals totals_;
};

}  // namespace

absl::StatusOr<FedTotals> Feed(std::shared_ptr<grpc::Channel> channel,
                               FeedSettings options,
                               const BatchStream& source) {
  RetryPolicy policy(ClientRole::kLoader, std::move(options.retry));
  return FeedLoop(std::move(channel), std::move(options), source).Run(policy);
}

}  // namespace cpfeed

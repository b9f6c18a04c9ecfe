// The converter of an IngestStream: a thread that takes what has arrived.

#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/wire/batch_codec.h"
#include "server/admitted_batch.h"
#include "server/ingest_stream.h"

namespace cpfeed {
namespace {

constexpr absl::Duration kPollInterval = absl::Seconds(1);

}  // namespace

void IngestStream::Arrive(Arrived arrived) {
  absl::MutexLock lock(&mu_);
  arrived.connection = live_connection_;
  arrived_.push_back(std::move(arrived));
}

void IngestStream::ConvertLoop() {
  while (true) {
    Arrived next;
    {
      const auto ready = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
        return !arrived_.empty() || stopping_;
      };
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(&ready));
      if (stopping_) return;
      next = std::move(arrived_.front());
      arrived_.pop_front();
      converting_ = true;
    }
    const int64_t connection = next.connection;
    const absl::Status status = Convert(std::move(next));
    {
      absl::MutexLock lock(&mu_);
      converting_ = false;
      // Of a rewind the call's thread learns by itself.
      if (connection == live_connection_ && ReasonOf(status) != kRewound) {
        broken_ = status;
      }
      if (!broken_.ok()) stopping_ = true;
    }
    bell_.Notify();
  }
}

// Returns an error only where the stream cannot go on.
absl::Status IngestStream::Convert(Arrived arrived) {
  const int64_t connection = arrived.connection;
  if (arrived.finish) return host_->Finish(connection, *arrived.finish);
  const int64_t sequence = arrived.header.sequence();
  const absl::Status status = DecodeAndConvert(std::move(arrived));
  return status.ok() ? status : Settle(connection, sequence, status);
}

absl::Status IngestStream::DecodeAndConvert(Arrived arrived) {
  metrics_.Observe(Stage::kReceive, arrived.receiving);
  const absl::Time begin = absl::Now();
  const int64_t connection = arrived.connection;
  AdmittedBatch admitted{.connection = connection,
                         .sequence = arrived.header.sequence(),
                         .batch_id = arrived.header.batch_id(),
                         .data_epoch = arrived.header.data_epoch()};
  CF_ASSIGN_OR_RETURN(admitted.batch,
                      DecodeBatch(arrived.header, arrived.payload));
  metrics_.Observe(Stage::kDecode, absl::Now() - begin);
  admitted.payload = std::exchange(arrived.payload, {});
  const int64_t sequence = admitted.sequence;
  return ConvertAndComplete(
      *host_, std::move(admitted), backend_, metrics_,
      [&](int64_t bytes) { return ChargeOrWait(connection, sequence, bytes); });
}

// A wrong batch gets a receipt and the stream goes on; so does one that was
// admitted behind it and is out of order now.
absl::Status IngestStream::Settle(int64_t connection, int64_t sequence,
                                  const absl::Status& why) {
  const bool out_of_order = ReasonOf(why) == kOutOfOrder;
  if (!out_of_order && !absl::IsInvalidArgument(why) &&
      !absl::IsDataLoss(why)) {
    return why;
  }
  if (!out_of_order) CF_RETURN_IF_ERROR(host_->Reject(connection, sequence));
  SendReceipt(connection, sequence, v1::BatchReceipt::OUTCOME_REJECTED, 0, why);
  return absl::OkStatus();
}

// Asked before each stage of a conversion: the place where one ends that nobody
// waits for any more.
absl::Status IngestStream::ChargeOrWait(int64_t connection, int64_t sequence,
                                        int64_t bytes) {
  while (true) {
    const uint64_t epoch = bell_.Epoch();
    {
      absl::MutexLock lock(&mu_);
      if (stopping_) return absl::CancelledError("the loader is gone");
    }
    CF_ASSIGN_OR_RETURN(const bool charged,
                        host_->Recharge(connection, sequence, bytes));
    if (charged) return absl::OkStatus();
    const absl::Time begin = absl::Now();
    bell_.WaitPast(epoch, kPollInterval);
    metrics_.CountStarved("producer", absl::Now() - begin);
  }
}

}  // namespace cpfeed

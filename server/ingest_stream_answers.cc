// What an IngestStream answers: receipts, credit, the way back, the drain.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "core/base/status_macros.h"
#include "core/wire/frame.h"
#include "core/wire/status_codec.h"
#include "server/drain_notice.h"
#include "server/event_log.h"
#include "server/ingest_stream.h"
#include "transport/fault_point.h"

namespace cpfeed {

Buffer IngestStream::Encode(const v1::PutBatchesResponse& response,
                            const std::optional<std::string>& state) {
  if (!state) return EncodeMessage(response, Buffer());
  return EncodeMessage(
      response,
      Buffer::CopyOf(state->data(), static_cast<int64_t>(state->size())));
}

// The trainer went to another step, which ended the connection, not the call:
// opens the producer anew and tells the loader where to go on. What is under
// way of the old connection is nobody's any more.
absl::Status IngestStream::Rewind() {
  CF_ASSIGN_OR_RETURN(const SessionHost::OpenedProducer opened,
                      host_->OpenProducer(producer_, incarnation_, &bell_));
  receiving_.reset();
  received_ = Buffer();
  dropping_.reset();
  rewinding_ = opened.generation;
  v1::PutBatchesResponse response;
  v1::Rewind& rewind = *response.mutable_rewind();
  rewind.set_generation(opened.generation);
  rewind.set_next_sequence(opened.next_sequence);
  rewind.set_credit_bytes(opened.credit_bytes);
  rewind.set_has_producer_state(opened.producer_state.has_value());
  {
    absl::MutexLock lock(&mu_);
    arrived_.clear();
    live_connection_ = opened.connection;
    outbox_.push_back(Encode(response, opened.producer_state));
  }
  host_->CloseProducer(std::exchange(connection_, opened.connection));
  EventLog("stream_rewound")
      .Add("session", host_->spec().name)
      .Add("producer", producer_)
      .Add("sequence", opened.next_sequence)
      .AddTrace(call_.context())
      .Info();
  return absl::OkStatus();
}

// Receipts and credit since the last time.
absl::Status IngestStream::CollectNews() {
  {
    absl::MutexLock lock(&mu_);
    CF_RETURN_IF_ERROR(broken_);
  }
  const std::optional<absl::Time> drain = host_->drain_deadline();
  const bool settled = IsSettled();  // Before its last receipts are taken.
  const bool drained = host_->IsDrained(connection_);
  for (const SessionHost::SettledBatch& batch :
       host_->TakePublished(connection_)) {
    SendReceipt(connection_, batch.sequence,
                batch.poison.ok() ? v1::BatchReceipt::OUTCOME_ACCEPTED
                                  : v1::BatchReceipt::OUTCOME_SKIPPED,
                batch.step, batch.poison);
  }
  CF_ASSIGN_OR_RETURN(const int64_t credit,
                      drain ? 0 : host_->TakeGrant(connection_));
  if (credit > 0) {
    v1::PutBatchesResponse response;
    response.mutable_credit()->set_bytes(credit);
    Send(Encode(response));
  }
  if (drained && !end_sent_) {
    v1::PutBatchesResponse response;
    response.mutable_end()->set_num_steps(host_->NumSteps().value_or(-1));
    Send(Encode(response));
    end_sent_ = true;
  }
  if (drain) return Drain(*drain, settled);
  drain_noticed_ = false;
  return absl::OkStatus();
}

// The notice first; the end when all that had arrived is converted and its
// receipts are written. A batch that is half received is dropped.
absl::Status IngestStream::Drain(absl::Time deadline, bool settled) {
  if (!drain_noticed_) {
    drain_noticed_ = true;
    v1::PutBatchesResponse response;
    *response.mutable_drain() = MakeDrainNotice(deadline);
    Send(Encode(response));
    return absl::OkStatus();
  }
  if (!settled || !IsSettled() || call_.writing()) return absl::OkStatus();
  return end_sent_ ? absl::OkStatus() : DrainedStatus();
}

bool IngestStream::IsSettled() const {
  absl::MutexLock lock(&mu_);
  return outbox_.empty() && arrived_.empty() && !converting_;
}

void IngestStream::SendReceipt(int64_t connection, int64_t sequence,
                               v1::BatchReceipt::Outcome outcome, int64_t step,
                               const absl::Status& why) {
  if (outcome == v1::BatchReceipt::OUTCOME_DUPLICATE) metrics_.CountDuplicate();
  if (outcome == v1::BatchReceipt::OUTCOME_REJECTED) {
    metrics_.CountRejected(why);
    EventLog("batch_rejected")
        .Add("session", host_->spec().name)
        .Add("producer", producer_)
        .Add("sequence", sequence)
        .Add(why)
        .Info();
  }
  v1::PutBatchesResponse response;
  v1::BatchReceipt& receipt = *response.mutable_receipt();
  receipt.set_sequence(sequence);
  receipt.set_outcome(outcome);
  receipt.set_step(step);
  if (!why.ok()) *receipt.mutable_status() = StatusToProto(why);
  Buffer message = Encode(response);
  absl::MutexLock lock(&mu_);
  if (connection == live_connection_) outbox_.push_back(std::move(message));
}

void IngestStream::Send(Buffer message) {
  absl::MutexLock lock(&mu_);
  outbox_.push_back(std::move(message));
}

void IngestStream::WriteNext() {
  if (call_.writing()) return;
  Buffer message;
  {
    absl::MutexLock lock(&mu_);
    if (outbox_.empty()) return;
    message = std::move(outbox_.front());
    outbox_.pop_front();
  }
  FaultPoint("ingest_write");
  call_.StartWrite(message);
}

}  // namespace cpfeed

#include "server/ingest_stream.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/wire/batch_codec.h"
#include "core/wire/frame.h"
#include "core/wire/status_codec.h"
#include "server/batch_digest.h"
#include "server/drain_notice.h"
#include "server/event_log.h"
#include "server/protocol.h"
#include "server/session_events.h"
#include "transport/fault_point.h"

namespace cpfeed {
namespace {

// Complete batches that may wait for the converter. Credit bounds their bytes;
// this bounds their number.
constexpr size_t kMostArrived = 16;

absl::Status Broken(absl::string_view what) {
  return InvalidArgument(kProtocolError, what);
}

// Whether an error concerns the batch alone, and the stream goes on.
bool ConcernsBatchOnly(const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  return reason == kOutOfOrder || reason == kSequenceConflict ||
         reason == kCursorExpired;
}

}  // namespace

IngestStream::IngestStream(SessionRegistry& registry,
                           const ConversionBackend& backend,
                           ServerMetrics& metrics,
                           absl::string_view server_instance, Caller caller,
                           ServerCall& call)
    : registry_(registry),
      backend_(backend),
      metrics_(metrics),
      server_instance_(server_instance),
      caller_(std::move(caller)),
      call_(call),
      bell_(call) {}

IngestStream::~IngestStream() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  bell_.Notify();
  if (converter_.joinable()) converter_.join();
  if (host_ != nullptr) host_->CloseProducer(connection_);
}

absl::Status IngestStream::Run() {
  absl::Status status = RunLoop();
  if (host_ != nullptr) {
    SessionEvent event = ProducerEvent(v1::EVENT_KIND_STREAM_ENDED, producer_);
    *event.mutable_status() = StatusToProto(status);
    host_->Announce(std::move(event));
    EventLog("stream_ended")
        .Add("kind", "producer")
        .Add("session", host_->spec().name)
        .Add("producer", producer_)
        .Add(status)
        .AddTrace(call_.context())
        .Info();
  }
  return status;
}

absl::Status IngestStream::RunLoop() {
  bool reads_done = false;
  while (true) {
    switch (call_.Wait()) {
      case ServerCall::Event::kMessage:
        message_ready_ = true;
        break;
      case ServerCall::Event::kReadsDone:
        if (host_ == nullptr) return Broken("stream ends before open");
        reads_done = true;
        break;
      case ServerCall::Event::kGone:
        return absl::CancelledError("the loader is gone");
      case ServerCall::Event::kWritten:
      case ServerCall::Event::kWakeup:
        break;
    }
    CF_RETURN_IF_ERROR(TakeMessages());
    if (host_ != nullptr) CF_RETURN_IF_ERROR(CollectNews());
    WriteNext();
    if (reads_done && IsIdle() && !call_.writing()) return absl::OkStatus();
  }
}

// A message stays with gRPC, and the loader is held back, while the converter
// has enough to do.
absl::Status IngestStream::TakeMessages() {
  if (!message_ready_ || !HasRoom() || drain_noticed_) return absl::OkStatus();
  message_ready_ = false;
  FaultPoint("ingest_read");
  const std::optional<Buffer> message = call_.TakeMessage();
  if (!message) return Broken("message cannot be read");
  return OnMessage(*message);
}

absl::Status IngestStream::OnMessage(const Buffer& message) {
  v1::PutBatchesRequest request;
  CF_ASSIGN_OR_RETURN(const Buffer payload, DecodeMessage(message, request));
  using Kind = v1::PutBatchesRequest::MessageCase;
  const Kind kind = request.message_case();
  if ((host_ == nullptr) != (kind == Kind::kOpen)) {
    return Broken("the first message, and no other, must be open");
  }
  if (payload.size() > 0 && kind != Kind::kChunk) {
    return Broken("only a chunk may have a payload");
  }
  switch (kind) {
    case Kind::kOpen:
      return OnOpen(request.open());
    case Kind::kBatch:
      return OnBatch(request.batch());
    case Kind::kChunk:
      return OnChunk(request.chunk(), payload);
    case Kind::kFinish:
      return OnFinish(request.finish());
    case Kind::kAbort:
      return OnAbort(request.abort());
    default:
      return Broken("message is of no known kind");
  }
}

absl::Status IngestStream::OnOpen(const v1::OpenProducer& open) {
  CF_ASSIGN_OR_RETURN(
      const int version,
      AgreeOnVersion(open.min_protocol_version(), open.max_protocol_version()));
  CF_ASSIGN_OR_RETURN(std::shared_ptr<SessionHost> host,
                      registry_.FindToOpen(open.session(), caller_));
  CF_ASSIGN_OR_RETURN(const SessionHost::OpenedProducer opened,
                      host->OpenProducer(ProducerOrDefault(open.producer()),
                                         open.incarnation(), &bell_));
  host_ = std::move(host);
  producer_ = ProducerOrDefault(open.producer());
  EventLog("stream_opened")
      .Add("kind", "producer")
      .Add("session", host_->spec().name)
      .Add("producer", producer_)
      .Add("sequence", opened.next_sequence)
      .Add("principal", caller_.name())
      .AddTrace(call_.context())
      .Info();
  connection_ = opened.connection;
  host_->Announce(ProducerEvent(v1::EVENT_KIND_STREAM_OPENED, producer_));
  v1::PutBatchesResponse response;
  v1::ProducerOpened& answer = *response.mutable_opened();
  answer.set_server_instance(server_instance_);
  answer.set_protocol_version(version);
  answer.set_generation(opened.generation);
  answer.set_next_sequence(opened.next_sequence);
  answer.set_credit_bytes(opened.credit_bytes);
  answer.set_max_batch_bytes(host_->spec().config.max_batch_bytes);
  answer.set_max_message_bytes(host_->spec().max_message_bytes);
  answer.set_has_producer_state(opened.producer_state.has_value());
  Send(response, opened.producer_state.value_or(""));
  converter_ = std::thread([this] { ConvertLoop(); });
  return absl::OkStatus();
}

absl::Status IngestStream::OnBatch(const v1::BatchHeader& header) {
  if (receiving_) {
    return Broken(absl::StrCat("sequence ", header.sequence(),
                               " begins before sequence ",
                               receiving_->sequence(), " is complete"));
  }
  dropping_.reset();
  const absl::StatusOr<int64_t> bytes =
      CheckBatchHeader(header, host_->spec().config.max_batch_bytes);
  const absl::StatusOr<uint64_t> digest =
      bytes.ok() ? BatchDigest(header) : bytes.status();
  if (!digest.ok()) {
    Refuse(header.sequence(), digest.status());
    // Of a header that makes no sense nobody knows what credit it took.
    return host_->Refuse(connection_, bytes.value_or(0));
  }
  const absl::StatusOr<Admission> admission =
      host_->Admit(connection_, header.sequence(), *digest, *bytes,
                   *bytes * kCostPerPayloadByte);
  if (!admission.ok()) {
    if (!ConcernsBatchOnly(admission.status())) return admission.status();
    Refuse(header.sequence(), admission.status());
    return absl::OkStatus();
  }
  if (admission->duplicate) {
    dropping_ = header.sequence();
    SendReceipt(header.sequence(), v1::BatchReceipt::OUTCOME_DUPLICATE,
                admission->step, absl::OkStatus());
    return absl::OkStatus();
  }
  receiving_ = header;
  receiving_since_ = absl::Now();
  received_ = Buffer();
  expected_bytes_ = *bytes;
  if (*bytes == 0) return OnChunk(v1::PayloadChunk(), Buffer());
  return absl::OkStatus();
}

absl::Status IngestStream::OnChunk(const v1::PayloadChunk& chunk,
                                   const Buffer& payload) {
  if (!receiving_) {
    if (dropping_) return absl::OkStatus();
    return Broken("a chunk comes without a batch");
  }
  const int64_t most = host_->spec().max_message_bytes;
  if (payload.size() > most) {
    return MakeError(
        absl::StatusCode::kResourceExhausted, kMessageTooLarge,
        absl::StrCat(
            "chunk has ", payload.size(),
            " bytes; must be at most limits.max_message_bytes = ", most));
  }
  if (chunk.offset() != received_.size() ||
      payload.size() > expected_bytes_ - received_.size()) {
    return Broken(absl::StrCat(
        "sequence ", receiving_->sequence(), ": chunk of ", payload.size(),
        " bytes at offset ", chunk.offset(), "; ", received_.size(), " of ",
        expected_bytes_, " bytes are there"));
  }
  received_.Append(payload);
  if (received_.size() == expected_bytes_) {
    Arrive({.header = *std::exchange(receiving_, {}),
            .payload = std::exchange(received_, {}),
            .receiving = absl::Now() - receiving_since_});
  }
  return absl::OkStatus();
}

absl::Status IngestStream::OnFinish(const v1::FinishProducer& finish) {
  if (receiving_) return Broken("finish comes inside a batch");
  Arrive({.finish = finish.num_batches()});
  return absl::OkStatus();
}

absl::Status IngestStream::OnAbort(const v1::AbortBatch& abort) {
  if (!receiving_ || receiving_->sequence() != abort.sequence()) {
    return Broken(
        absl::StrCat("sequence ", abort.sequence(), " is not under way"));
  }
  receiving_.reset();
  received_ = Buffer();
  return host_->Reject(connection_, abort.sequence());
}

void IngestStream::Refuse(int64_t sequence, const absl::Status& why) {
  dropping_ = sequence;
  SendReceipt(sequence, v1::BatchReceipt::OUTCOME_REJECTED, 0, why);
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
    SendReceipt(batch.sequence,
                batch.poison.ok() ? v1::BatchReceipt::OUTCOME_ACCEPTED
                                  : v1::BatchReceipt::OUTCOME_SKIPPED,
                batch.step, batch.poison);
  }
  CF_ASSIGN_OR_RETURN(const int64_t credit,
                      drain ? 0 : host_->TakeGrant(connection_));
  if (credit > 0) {
    v1::PutBatchesResponse response;
    response.mutable_credit()->set_bytes(credit);
    Send(response);
  }
  if (drained && !end_sent_) {
    v1::PutBatchesResponse response;
    response.mutable_end()->set_num_steps(host_->NumSteps().value_or(-1));
    Send(response);
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
    Send(response);
    return absl::OkStatus();
  }
  if (!settled || !IsSettled() || call_.writing()) return absl::OkStatus();
  return end_sent_ ? absl::OkStatus() : DrainedStatus();
}

bool IngestStream::IsSettled() const {
  absl::MutexLock lock(&mu_);
  return outbox_.empty() && arrived_.empty() && !converting_;
}

void IngestStream::SendReceipt(int64_t sequence,
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
  Send(response);
}

void IngestStream::Send(const v1::PutBatchesResponse& response,
                        const std::string& payload) {
  Buffer message = EncodeMessage(
      response,
      Buffer::CopyOf(payload.data(), static_cast<int64_t>(payload.size())));
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

bool IngestStream::HasRoom() const {
  absl::MutexLock lock(&mu_);
  return arrived_.size() < kMostArrived || !broken_.ok();
}

bool IngestStream::IsIdle() const {
  absl::MutexLock lock(&mu_);
  return outbox_.empty() && arrived_.empty() && !converting_ && !message_ready_;
}

}  // namespace cpfeed

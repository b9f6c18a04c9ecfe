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
#include "server/event_log.h"
#include "server/protocol.h"
#include "server/session_events.h"
#include "server/tensor_fields.h"
#include "transport/fault_point.h"

namespace cpfeed {
namespace {

absl::StatusOr<uint64_t> CheckedDigest(const v1::Session& session,
                                       const v1::BatchHeader& header) {
  CF_RETURN_IF_ERROR(CheckFieldsOfBatch(session, header));
  return BatchDigest(header);
}

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
    absl::Status status = Advance();
    if (ReasonOf(status) == kRewound && follows_rewind_ && !end_sent_) {
      status = Rewind();
    }
    CF_RETURN_IF_ERROR(status);
    WriteNext();
    if (reads_done && IsIdle() && !call_.writing()) return absl::OkStatus();
  }
}

absl::Status IngestStream::Advance() {
  CF_RETURN_IF_ERROR(TakeMessages());
  return host_ == nullptr ? absl::OkStatus() : CollectNews();
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
  if (rewinding_) {
    // All else was sent before the loader knew.
    if (kind == Kind::kFollow) OnFollow(request.follow());
    return absl::OkStatus();
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
  incarnation_ = open.incarnation();
  follows_rewind_ = open.follows_rewind();
  EventLog("stream_opened")
      .Add("kind", "producer")
      .Add("session", host_->spec().name)
      .Add("producer", producer_)
      .Add("sequence", opened.next_sequence)
      .Add("principal", caller_.name())
      .AddTrace(call_.context())
      .Info();
  connection_ = opened.connection;
  {
    absl::MutexLock lock(&mu_);
    live_connection_ = connection_;
  }
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
  Send(Encode(response, opened.producer_state));
  converter_ = std::thread([this] { ConvertLoop(); });
  return absl::OkStatus();
}

void IngestStream::OnFollow(const v1::FollowRewind& follow) {
  if (follow.generation() == *rewinding_) rewinding_.reset();
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
      bytes.ok() ? CheckedDigest(host_->spec().session, header)
                 : bytes.status();
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
    SendReceipt(connection_, header.sequence(),
                v1::BatchReceipt::OUTCOME_DUPLICATE, admission->step,
                absl::OkStatus());
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
  SendReceipt(connection_, sequence, v1::BatchReceipt::OUTCOME_REJECTED, 0,
              why);
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

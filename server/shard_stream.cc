#include "server/shard_stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/wire/frame.h"
#include "core/wire/status_codec.h"
#include "server/drain_notice.h"
#include "server/event_log.h"
#include "server/protocol.h"
#include "server/session_events.h"
#include "transport/fault_point.h"

namespace cpfeed {
namespace {

constexpr int64_t kDefaultCreditBytes = int64_t{64} << 20;

absl::Status Broken(absl::string_view what) {
  return InvalidArgument(kProtocolError, what);
}

}  // namespace

ShardStream::ShardStream(SessionRegistry& registry, ServerMetrics& metrics,
                         absl::string_view server_instance, Caller caller,
                         ServerCall& call)
    : registry_(registry),
      metrics_(metrics),
      server_instance_(server_instance),
      caller_(std::move(caller)),
      call_(call),
      bell_(call) {}

ShardStream::~ShardStream() {
  if (host_ != nullptr) host_->CloseConsumer(connection_);
}

absl::Status ShardStream::Run() {
  absl::Status status = RunLoop();
  if (host_ != nullptr) {
    SessionEvent event =
        ConsumerEvent(v1::EVENT_KIND_STREAM_ENDED, cp_rank_, consumer_);
    *event.mutable_status() = StatusToProto(status);
    host_->Announce(std::move(event));
    EventLog("stream_ended")
        .Add("kind", "consumer")
        .Add("session", host_->spec().name)
        .Add("cp_rank", cp_rank_)
        .Add("consumer", consumer_)
        .Add(status)
        .AddTrace(call_.context())
        .Info();
  }
  return status;
}

absl::Status ShardStream::RunLoop() {
  bool reads_done = false;
  while (true) {
    switch (call_.Wait()) {
      case ServerCall::Event::kMessage: {
        FaultPoint("shard_read");
        const std::optional<Buffer> message = call_.TakeMessage();
        if (!message) return Broken("message cannot be read");
        CF_RETURN_IF_ERROR(OnMessage(*message));
        break;
      }
      case ServerCall::Event::kReadsDone:
        if (host_ == nullptr) return Broken("stream ends before attach");
        reads_done = true;
        break;
      case ServerCall::Event::kGone:
        return absl::CancelledError("the consumer is gone");
      case ServerCall::Event::kWritten:
      case ServerCall::Event::kWakeup:
        break;
    }
    if (detached_) return absl::OkStatus();
    if (host_ != nullptr) CF_RETURN_IF_ERROR(Advance());
    if (drained_) return absl::OkStatus();
    WriteNext();
    // After the end the stream waits for the last acknowledgements.
    if (reads_done && ended_ && !call_.writing()) return absl::OkStatus();
  }
}

absl::Status ShardStream::OnMessage(const Buffer& message) {
  v1::StreamShardsRequest request;
  CF_RETURN_IF_ERROR(DecodeMessage(message, request).status());
  using Kind = v1::StreamShardsRequest::MessageCase;
  const Kind kind = request.message_case();
  if ((host_ == nullptr) != (kind == Kind::kAttach)) {
    return Broken("the first message, and no other, must be attach");
  }
  switch (kind) {
    case Kind::kAttach:
      return OnAttach(request.attach());
    case Kind::kCredit:
      return host_->AddCredit(connection_, request.credit().bytes());
    case Kind::kAck:
      return host_->Ack(connection_, request.ack().through_step());
    case Kind::kNack:
      return MakeError(absl::StatusCode::kDataLoss, kChecksumMismatch,
                       absl::StrCat("cp_rank ", cp_rank_, " cannot use step ",
                                    request.nack().step(),
                                    "; attach again behind the last "
                                    "good one"));
    case Kind::kDetach:
      detached_ = true;
      return absl::OkStatus();
    default:
      return Broken("message is of no known kind");
  }
}

absl::Status ShardStream::OnAttach(const v1::AttachConsumer& attach) {
  CF_ASSIGN_OR_RETURN(const int version,
                      AgreeOnVersion(attach.min_protocol_version(),
                                     attach.max_protocol_version()));
  CF_ASSIGN_OR_RETURN(std::shared_ptr<SessionHost> host,
                      registry_.FindToOpen(attach.session(), caller_));
  const SessionConfig& config = host->spec().config;
  if (attach.cp_size() != 0 && attach.cp_size() != config.cp_size) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition, kTopologyMismatch,
        absl::StrCat("consumer expects cp_size = ", attach.cp_size(),
                     "; the session has ", config.cp_size));
  }
  std::optional<int64_t> first_step;
  if (attach.has_first_step()) first_step = attach.first_step();
  CF_ASSIGN_OR_RETURN(
      const SessionHost::AttachedConsumer attached,
      host->Attach(attach.cp_rank(), attach.consumer(), attach.incarnation(),
                   attach.generation(), first_step, &bell_));
  host_ = std::move(host);
  connection_ = attached.connection;
  metrics_.CountRedelivered(attached.redelivered_steps);
  cp_rank_ = attach.cp_rank();
  consumer_ = attach.consumer();
  EventLog("stream_opened")
      .Add("kind", "consumer")
      .Add("session", host_->spec().name)
      .Add("cp_rank", cp_rank_)
      .Add("consumer", consumer_)
      .Add("step", attached.first_step)
      .Add("principal", caller_.name())
      .AddTrace(call_.context())
      .Info();
  host_->Announce(
      ConsumerEvent(v1::EVENT_KIND_STREAM_OPENED, cp_rank_, consumer_));
  leader_ = attach.cp_rank() == 0 && attach.consumer() == 0;
  tensors_.assign(attach.tensors().begin(), attach.tensors().end());
  CF_RETURN_IF_ERROR(host_->AddCredit(
      connection_, attach.credit_bytes() == 0 ? kDefaultCreditBytes
                                              : attach.credit_bytes()));
  v1::StreamShardsResponse response;
  v1::ConsumerAttached& answer = *response.mutable_attached();
  answer.set_server_instance(server_instance_);
  answer.set_protocol_version(version);
  answer.set_generation(attached.generation);
  answer.set_first_step(attached.first_step);
  answer.set_cp_size(config.cp_size);
  answer.set_consumers_per_cp_rank(config.consumers_per_cp_rank);
  answer.set_max_message_bytes(host_->spec().max_message_bytes);
  Send(response);
  return absl::OkStatus();
}

// The notice first, between two steps; the end when nothing is left to be
// delivered. Whether the stream has something to write, or to wait for.
absl::StatusOr<bool> ShardStream::Drain() {
  const std::optional<absl::Time> deadline = host_->drain_deadline();
  if (!deadline) {
    drain_noticed_ = false;
    return false;
  }
  if (payload_offset_ < payload_.size() || !outbox_.empty()) return false;
  if (!drain_noticed_) {
    drain_noticed_ = true;
    v1::StreamShardsResponse response;
    *response.mutable_drain() = MakeDrainNotice(*deadline);
    Send(response, leader_ ? host_->NewestCursor() : "");
    return true;
  }
  if (call_.writing() || !host_->IsSettled(connection_)) return false;
  if (!ended_) return DrainedStatus();
  drained_ = true;
  return true;
}

// Takes up the next step when the one before is on its way.
absl::Status ShardStream::Advance() {
  CF_ASSIGN_OR_RETURN(const bool draining, Drain());
  if (draining) return absl::OkStatus();
  if (ended_ || payload_offset_ < payload_.size() || !outbox_.empty()) {
    return host_->Next(connection_).status();
  }
  CF_ASSIGN_OR_RETURN(const Delivery delivery, host_->Next(connection_));
  if (delivery.kind == Delivery::Kind::kEnd) {
    v1::StreamShardsResponse response;
    response.mutable_end()->set_num_steps(delivery.step);
    Send(response);
    ended_ = true;
    return absl::OkStatus();
  }
  if (delivery.kind == Delivery::Kind::kNothing) {
    if (!starved_since_) starved_since_ = absl::Now();
    return absl::OkStatus();
  }
  if (starved_since_) {
    metrics_.CountStarved("consumer", absl::Now() - *starved_since_);
    starved_since_.reset();
  }
  CF_RETURN_IF_ERROR(PrepareStep(delivery.step));
  CF_ASSIGN_OR_RETURN(const bool send,
                      host_->TrySend(connection_, next_.payload.size()));
  if (send) QueueStep();
  return absl::OkStatus();
}

absl::Status ShardStream::PrepareStep(int64_t step) {
  if (held_ != nullptr && held_->step == step) return absl::OkStatus();
  held_ = host_->FindStep(step);
  if (held_ == nullptr) {
    return MakeError(absl::StatusCode::kInternal, kCursorExpired,
                     absl::StrCat("step ", step, " is not held"));
  }
  next_ = held_->batch.poison.ok()
              ? MessageOf(*held_, cp_rank_, tensors_, leader_)
              : EncodedStep();
  return absl::OkStatus();
}

void ShardStream::QueueStep() {
  const std::shared_ptr<const HeldStep> held = std::exchange(held_, nullptr);
  if (held->ended_epoch) {
    v1::StreamShardsResponse end_of_epoch;
    end_of_epoch.mutable_epoch_end()->set_step(held->step - 1);
    end_of_epoch.mutable_epoch_end()->set_data_epoch(*held->ended_epoch);
    Send(end_of_epoch);
  }
  v1::StreamShardsResponse response;
  if (!held->batch.poison.ok()) {
    v1::Tombstone& tombstone = *response.mutable_tombstone();
    tombstone.set_step(held->step);
    tombstone.set_reason(ReasonOf(held->batch.poison));
    tombstone.set_message(std::string(held->batch.poison.message()));
    Send(response, leader_ ? held->cursor : "");
    return;
  }
  *response.mutable_step() = std::move(next_.header);
  Send(response);
  sending_since_ = absl::Now();
  payload_ = std::move(next_.payload);
  payload_offset_ = 0;
}

void ShardStream::WriteNext() {
  if (call_.writing()) return;
  if (!outbox_.empty() || payload_offset_ < payload_.size()) {
    FaultPoint("shard_write");
  }
  if (!outbox_.empty()) {
    call_.StartWrite(outbox_.front());
    outbox_.pop_front();
    return;
  }
  if (payload_offset_ == payload_.size()) return;
  v1::StreamShardsResponse response;
  response.mutable_chunk()->set_offset(payload_offset_);
  const int64_t bytes = std::min(host_->spec().max_message_bytes,
                                 payload_.size() - payload_offset_);
  call_.StartWrite(
      EncodeMessage(response, payload_.Slice(payload_offset_, bytes)));
  payload_offset_ += bytes;
  if (payload_offset_ == payload_.size()) {
    metrics_.Observe(Stage::kSend, absl::Now() - sending_since_);
    payload_ = Buffer();
    payload_offset_ = 0;
  }
}

void ShardStream::Send(const v1::StreamShardsResponse& response,
                       const std::string& payload) {
  outbox_.push_back(EncodeMessage(
      response,
      Buffer::CopyOf(payload.data(), static_cast<int64_t>(payload.size()))));
}

}  // namespace cpfeed

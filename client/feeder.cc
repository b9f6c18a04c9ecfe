#include "client/feeder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/session_client.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/wire/batch_codec.h"
#include "core/wire/frame.h"
#include "core/wire/status_codec.h"

namespace cpfeed {
namespace {

constexpr char kMethod[] = "/cpfeed.v1.IngestService/PutBatches";

std::string TextOf(const Buffer& buffer) {
  std::string text(static_cast<size_t>(buffer.size()), '\0');
  buffer.CopyTo(text.data());
  return text;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Feeder>> Feeder::Open(
    std::shared_ptr<grpc::Channel> channel, FeederOptions options) {
  CF_RETURN_IF_ERROR(
      WaitForSession(channel, options.session, options.session_wait).status());
  if (options.incarnation == 0) {
    options.incarnation = absl::ToUnixNanos(absl::Now());
  }
  std::unique_ptr<Feeder> feeder(
      new Feeder(std::move(channel), std::move(options)));
  CF_RETURN_IF_ERROR(feeder->Start());
  return feeder;
}

Feeder::Feeder(std::shared_ptr<grpc::Channel> channel, FeederOptions options)
    : options_(std::move(options)),
      stream_(std::move(channel), kMethod, options_.traceparent) {}

Feeder::~Feeder() {
  stream_.Cancel();
  if (reader_.joinable()) reader_.join();
}

absl::Status Feeder::Start() {
  v1::PutBatchesRequest request;
  v1::OpenProducer& open = *request.mutable_open();
  open.set_session(options_.session);
  open.set_producer(options_.producer);
  open.set_incarnation(options_.incarnation);
  open.set_min_protocol_version(1);
  open.set_max_protocol_version(1);
  open.set_follows_rewind(true);
  stream_.Write(EncodeMessage(request, Buffer()));
  Buffer message;
  if (!stream_.Read(message)) return stream_.Finish();
  v1::PutBatchesResponse response;
  CF_ASSIGN_OR_RETURN(const Buffer state, DecodeMessage(message, response));
  if (!response.has_opened()) {
    return InvalidArgument(kProtocolError,
                           "the server's first message is not opened");
  }
  const v1::ProducerOpened& opened = response.opened();
  next_sequence_ = opened.next_sequence();
  max_batch_bytes_ = opened.max_batch_bytes();
  max_message_bytes_ = std::max<int64_t>(opened.max_message_bytes(), 1);
  if (opened.has_producer_state()) producer_state_ = TextOf(state);
  {
    absl::MutexLock lock(&mu_);
    credit_bytes_ = opened.credit_bytes();
  }
  reader_ = std::thread([this] { ReadLoop(); });
  return absl::OkStatus();
}

void Feeder::ReadLoop() {
  Buffer message;
  while (stream_.Read(message)) {
    v1::PutBatchesResponse response;
    const auto payload = DecodeMessage(message, response);
    if (payload.ok()) OnResponse(response, *payload);
  }
  const absl::Status status = stream_.Finish();
  absl::MutexLock lock(&mu_);
  ended_ = true;
  if (status_.ok()) status_ = status;
}

void Feeder::OnResponse(const v1::PutBatchesResponse& response,
                        const Buffer& payload) {
  switch (response.message_case()) {
    case v1::PutBatchesResponse::kCredit: {
      absl::MutexLock lock(&mu_);
      credit_bytes_ += response.credit().bytes();
      return;
    }
    case v1::PutBatchesResponse::kReceipt:
      return OnReceipt(response.receipt());
    case v1::PutBatchesResponse::kRewind:
      return OnRewind(response.rewind(), payload);
    case v1::PutBatchesResponse::kEnd: {
      absl::MutexLock lock(&mu_);
      num_steps_ = response.end().num_steps();
      return;
    }
    default:
      return;  // Of a later version, or a notice.
  }
}

void Feeder::OnRewind(const v1::Rewind& rewind, const Buffer& state) {
  absl::MutexLock lock(&mu_);
  rewind_ = rewind;
  rewind_state_.reset();
  if (rewind.has_producer_state()) rewind_state_ = TextOf(state);
  credit_bytes_ = rewind.credit_bytes();
  without_receipt_ = 0;
  if (status_.ok()) {
    status_ = MakeError(absl::StatusCode::kAborted, kRewound,
                        absl::StrCat("the session went back to batch ",
                                     rewind.next_sequence()));
  }
}

bool Feeder::Follow() {
  v1::PutBatchesRequest request;
  {
    absl::MutexLock lock(&mu_);
    if (!rewind_ || ended_ || ReasonOf(status_) != kRewound) return false;
    request.mutable_follow()->set_generation(rewind_->generation());
    next_sequence_ = rewind_->next_sequence();
    producer_state_ = std::move(rewind_state_);
    rewind_.reset();
    status_ = absl::OkStatus();
  }
  return stream_.Write(EncodeMessage(request, Buffer()));
}

void Feeder::OnReceipt(const v1::BatchReceipt& receipt) {
  if (options_.on_receipt) options_.on_receipt(receipt);
  absl::MutexLock lock(&mu_);
  --without_receipt_;
  if (receipt.outcome() == v1::BatchReceipt::OUTCOME_REJECTED && status_.ok()) {
    status_ = Annotate(StatusFromProto(receipt.status()),
                       absl::StrCat("batch ", receipt.sequence()));
  }
}

absl::Status Feeder::Put(const PackedBatch& batch, const BatchInfo& info) {
  EncodedBatch encoded = EncodeBatch(batch, info.producer_state);
  encoded.header.set_sequence(next_sequence_);
  encoded.header.set_batch_id(info.batch_id);
  encoded.header.set_data_epoch(info.data_epoch);
  CF_ASSIGN_OR_RETURN(const int64_t bytes,
                      CheckBatchHeader(encoded.header, max_batch_bytes_));
  CF_RETURN_IF_ERROR(WaitForCredit(bytes));
  v1::PutBatchesRequest request;
  *request.mutable_batch() = std::move(encoded.header);
  if (!stream_.Write(EncodeMessage(request, Buffer()))) return BrokenStream();
  CF_RETURN_IF_ERROR(SendPayload(encoded.payload));
  ++next_sequence_;
  return absl::OkStatus();
}

absl::Status Feeder::WaitForCredit(int64_t bytes) {
  const auto ready = [this, bytes]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return credit_bytes_ >= bytes || ended_ || !status_.ok();
  };
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(&ready));
  CF_RETURN_IF_ERROR(status_);
  if (ended_) return absl::UnavailableError("the server ended the stream");
  credit_bytes_ -= bytes;
  ++without_receipt_;
  return absl::OkStatus();
}

absl::Status Feeder::SendPayload(const Buffer& payload) {
  for (int64_t offset = 0; offset < payload.size();) {
    const int64_t bytes = std::min(max_message_bytes_, payload.size() - offset);
    v1::PutBatchesRequest request;
    request.mutable_chunk()->set_offset(offset);
    if (!stream_.Write(EncodeMessage(request, payload.Slice(offset, bytes)))) {
      return BrokenStream();
    }
    offset += bytes;
  }
  return absl::OkStatus();
}

// A write failed: the reader learns why.
absl::Status Feeder::BrokenStream() {
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(&ended_));
  return status_.ok() ? absl::UnavailableError("the server ended the stream")
                      : status_;
}

absl::Status Feeder::Flush() {
  const auto done = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return without_receipt_ == 0 || ended_ || !status_.ok();
  };
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(&done));
  if (without_receipt_ > 0 && status_.ok()) {
    return absl::UnavailableError("the server ended the stream");
  }
  return status_;
}

absl::StatusOr<int64_t> Feeder::Finish() {
  // A finish behind a batch that is about to be rejected would break the
  // protocol, and the reason be lost.
  CF_RETURN_IF_ERROR(Flush());
  v1::PutBatchesRequest request;
  request.mutable_finish()->set_num_batches(next_sequence_);
  if (!stream_.Write(EncodeMessage(request, Buffer()))) return BrokenStream();
  const auto done = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return num_steps_.has_value() || ended_ || !status_.ok();
  };
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(&done));
  if (num_steps_) {
    stream_.WritesDone();
    return *num_steps_;
  }
  return status_.ok() ? absl::UnavailableError("the server ended the stream")
                      : status_;
}

}  // namespace cpfeed

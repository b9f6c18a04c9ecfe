#include "client/shard_reader.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/session_client.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/wire/frame.h"
#include "core/wire/shard_codec.h"
#include "core/wire/step_gather.h"

namespace cpfeed {
namespace {

constexpr char kMethod[] = "/cpfeed.v1.ShardService/StreamShards";

absl::Status Unexpected(absl::string_view what) {
  return InvalidArgument(kProtocolError,
                         absl::StrCat("the server sent ", what));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ShardReader>> ShardReader::Attach(
    std::shared_ptr<grpc::Channel> channel, ShardReaderOptions options) {
  CF_RETURN_IF_ERROR(
      WaitForSession(channel, options.session, options.session_wait).status());
  if (options.incarnation == 0) {
    options.incarnation = absl::ToUnixNanos(absl::Now());
  }
  std::unique_ptr<ShardReader> reader(
      new ShardReader(std::move(channel), std::move(options)));
  CF_RETURN_IF_ERROR(reader->Start());
  return reader;
}

ShardReader::ShardReader(std::shared_ptr<grpc::Channel> channel,
                         ShardReaderOptions options)
    : options_(std::move(options)),
      stream_(std::move(channel), kMethod, options_.traceparent) {}

ShardReader::~ShardReader() {
  if (!at_end_) return;
  stream_.WritesDone();
  Buffer nothing;
  while (stream_.Read(nothing)) {
  }
}

absl::Status ShardReader::Start() {
  v1::StreamShardsRequest request;
  v1::AttachConsumer& attach = *request.mutable_attach();
  attach.set_session(options_.session);
  attach.set_cp_rank(options_.cp_rank);
  attach.set_consumer(options_.consumer);
  attach.set_cp_size(options_.cp_size);
  attach.set_generation(options_.generation);
  attach.set_incarnation(options_.incarnation);
  if (options_.first_step) attach.set_first_step(*options_.first_step);
  for (const std::string& name : options_.tensors) attach.add_tensors(name);
  attach.set_credit_bytes(options_.credit_bytes);
  attach.set_min_protocol_version(1);
  attach.set_max_protocol_version(1);
  CF_RETURN_IF_ERROR(Send(request));
  Buffer message;
  if (!stream_.Read(message)) return stream_.Finish();
  v1::StreamShardsResponse response;
  CF_RETURN_IF_ERROR(DecodeMessage(message, response).status());
  if (!response.has_attached()) return Unexpected("no attached first");
  attached_ = response.attached();
  return absl::OkStatus();
}

absl::StatusOr<std::optional<ReceivedStep>> ShardReader::Next() {
  Buffer message;
  while (!ended_ && stream_.Read(message)) {
    v1::StreamShardsResponse response;
    CF_ASSIGN_OR_RETURN(const Buffer payload, DecodeMessage(message, response));
    ReceivedStep received;
    switch (response.message_case()) {
      case v1::StreamShardsResponse::kStep:
        return ReadStep(std::move(*response.mutable_step()));
      case v1::StreamShardsResponse::kTombstone:
        received.kind = ReceivedStep::Kind::kTombstone;
        received.header.set_step(response.tombstone().step());
        received.reason = response.tombstone().reason();
        received.cursor.resize(static_cast<size_t>(payload.size()));
        payload.CopyTo(received.cursor.data());
        unacked_.push_back({response.tombstone().step(), 0});
        return received;
      case v1::StreamShardsResponse::kEpochEnd:
        received.kind = ReceivedStep::Kind::kEpochEnd;
        received.header.set_step(response.epoch_end().step());
        received.header.set_data_epoch(response.epoch_end().data_epoch());
        return received;
      case v1::StreamShardsResponse::kEnd:
        at_end_ = true;
        ended_ = true;
        break;
      case v1::StreamShardsResponse::kChunk:
        return Unexpected("a chunk without a step");
      default:
        break;  // Of a later version, or a notice.
    }
  }
  if (at_end_) return std::nullopt;
  ended_ = true;
  const absl::Status status = stream_.Finish();
  if (status.ok()) return absl::UnavailableError("the stream ended early");
  return status;
}

absl::StatusOr<ReceivedStep> ShardReader::ReadStep(v1::StepHeader header) {
  absl::StatusOr<StepGather> begun =
      StepGather::Begin(header, options_.max_step_bytes);
  if (!begun.ok()) {
    return Annotate(begun.status(), absl::StrCat("step ", header.step()));
  }
  StepGather& gather = *begun;
  while (!gather.complete()) {
    Buffer message;
    if (!stream_.Read(message)) {
      ended_ = true;
      const absl::Status status = stream_.Finish();
      return status.ok() ? absl::UnavailableError("the stream ended early")
                         : status;
    }
    v1::StreamShardsResponse response;
    CF_ASSIGN_OR_RETURN(const Buffer piece, DecodeMessage(message, response));
    if (!response.has_chunk() || response.chunk().offset() != gather.size()) {
      return Unexpected(
          absl::StrCat("something else inside step ", header.step()));
    }
    if (const absl::Status status = gather.Append(piece); !status.ok()) {
      return Annotate(status, absl::StrCat("step ", header.step()));
    }
  }
  const Buffer& payload = gather.payload();
  ReceivedStep received;
  received.cursor.resize(static_cast<size_t>(header.cursor_bytes()));
  payload.Slice(0, header.cursor_bytes()).CopyTo(received.cursor.data());
  absl::StatusOr<StepShard> shard =
      DecodeStep(header, cp_size(),
                 payload.Slice(header.cursor_bytes(),
                               payload.size() - header.cursor_bytes()),
                 Checksums::kCompared);
  if (!shard.ok()) {
    return Annotate(shard.status(), absl::StrCat("step ", header.step()));
  }
  received.shard = *std::move(shard);
  unacked_.push_back({header.step(), header.payload_bytes()});
  received.header = std::move(header);
  return received;
}

absl::Status ShardReader::Ack(int64_t through_step) {
  int64_t bytes = 0;
  while (!unacked_.empty() && unacked_.front().first <= through_step) {
    bytes += unacked_.front().second;
    unacked_.pop_front();
  }
  v1::StreamShardsRequest ack;
  ack.mutable_ack()->set_through_step(through_step);
  CF_RETURN_IF_ERROR(Send(ack));
  if (bytes == 0) return absl::OkStatus();
  v1::StreamShardsRequest credit;
  credit.mutable_credit()->set_bytes(bytes);
  return Send(credit);
}

absl::Status ShardReader::Send(const v1::StreamShardsRequest& request) {
  if (stream_.Write(EncodeMessage(request, Buffer()))) return absl::OkStatus();
  // After the end of the data the server may be gone already.
  if (at_end_) return absl::OkStatus();
  ended_ = true;
  // gRPC has no status for us before all that came is read.
  Buffer unread;
  while (stream_.Read(unread)) {
  }
  const absl::Status status = stream_.Finish();
  return status.ok() ? absl::UnavailableError("the stream ended early")
                     : status;
}

}  // namespace cpfeed

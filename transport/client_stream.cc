#include "transport/client_stream.h"

#include <grpcpp/impl/rpc_method.h>

#include <utility>

#include "transport/fault_point.h"
#include "transport/grpc_status.h"

namespace cpfeed {

ClientStream::ClientStream(std::shared_ptr<grpc::Channel> channel,
                           const std::string& method,
                           const std::string& traceparent)
    : channel_(std::move(channel)) {
  if (!traceparent.empty()) context_.AddMetadata("traceparent", traceparent);
  const grpc::internal::RpcMethod rpc(
      method.c_str(), grpc::internal::RpcMethod::BIDI_STREAMING);
  stream_.reset(
      grpc::internal::ClientReaderWriterFactory<RawMessage, RawMessage>::Create(
          channel_.get(), rpc, &context_));
}

ClientStream::~ClientStream() {
  if (finished_) return;
  Cancel();
  Finish().IgnoreError();
}

bool ClientStream::Write(const Buffer& message) {
  FaultPoint("client_write");
  return stream_->Write(RawMessage{message});
}

bool ClientStream::Read(Buffer& message) {
  RawMessage raw;
  if (!stream_->Read(&raw)) return false;
  message = std::move(raw.bytes);
  FaultPoint("client_read");
  return true;
}

void ClientStream::WritesDone() { stream_->WritesDone(); }

absl::Status ClientStream::Finish() {
  finished_ = true;
  return FromGrpcStatus(stream_->Finish());
}

void ClientStream::Cancel() { context_.TryCancel(); }

}  // namespace cpfeed

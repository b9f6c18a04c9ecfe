#include "tests/bench/bare_stream.h"

#include <google/protobuf/wrappers.pb.h>
#include <grpcpp/client_context.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/client_unary_call.h>
#include <grpcpp/impl/codegen/method_handler.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/impl/rpc_method.h>
#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/sync_stream.h>

#include <cstring>
#include <functional>
#include <iostream>
#include <random>
#include <string>

#include "core/base/status_macros.h"
#include "transport/channel_settings.h"

namespace cpfeed::bench {
namespace {

using ::google::protobuf::BytesValue;

constexpr char kRawMethod[] = "/cpfeed.bench.Bare/Raw";
constexpr char kBytesMethod[] = "/cpfeed.bench.Bare/Bytes";
constexpr char kPingMethod[] = "/cpfeed.bench.Bare/Ping";
constexpr int64_t kSourceBytes = 64 << 20;

// Larger than any cache, so that a sender reads memory as a server does.
std::vector<uint64_t> MakeSource() {
  std::mt19937_64 random(1);
  std::vector<uint64_t> source(kSourceBytes / sizeof(uint64_t));
  for (uint64_t& word : source) word = random();
  return source;
}

// Tag and length of field 1 in front of `size` payload bytes, so that a raw
// message is a BytesValue too.
std::string BytesPrefix(int64_t size) {
  std::string prefix(1, (1 << 3) | 2);
  for (; size >= 128; size >>= 7) {
    prefix.push_back(static_cast<char>(size % 128 + 128));
  }
  prefix.push_back(static_cast<char>(size));
  return prefix;
}

class BareService final : public grpc::Service {
 public:
  BareService() : source_(MakeSource()) {
    AddStream<grpc::ByteBuffer>(kRawMethod, [](const char* data, int64_t size) {
      const std::string prefix = BytesPrefix(size);
      const grpc::Slice slices[] = {
          grpc::Slice(prefix),
          grpc::Slice(const_cast<char*>(data), size, [](void*) {})};
      return grpc::ByteBuffer(slices, 2);
    });
    AddStream<BytesValue>(kBytesMethod, [](const char* data, int64_t size) {
      BytesValue message;
      message.set_value(data, size);
      return message;
    });
    AddPing();
  }

 private:
  void AddPing() {
    using Handler =
        grpc::internal::RpcMethodHandler<BareService, BytesValue, BytesValue>;
    AddMethod(new grpc::internal::RpcServiceMethod(
        kPingMethod, grpc::internal::RpcMethod::NORMAL_RPC,
        new Handler(
            [](BareService*, grpc::ServerContext*, const BytesValue* request,
               BytesValue* response) {
              *response = *request;
              return grpc::Status::OK;
            },
            this)));
  }

  template <class Message>
  void AddStream(const char* method,
                 std::function<Message(const char*, int64_t)> make) {
    using Handler = grpc::internal::ServerStreamingHandler<BareService,
                                                           BytesValue, Message>;
    AddMethod(new grpc::internal::RpcServiceMethod(
        method, grpc::internal::RpcMethod::SERVER_STREAMING,
        new Handler(
            [make](BareService* service, grpc::ServerContext*,
                   const BytesValue* request,
                   grpc::ServerWriter<Message>* writer) {
              return service->Stream<Message>(*request, make, *writer);
            },
            this)));
  }

  template <class Message>
  grpc::Status Stream(const BytesValue& text,
                      const std::function<Message(const char*, int64_t)>& make,
                      grpc::ServerWriter<Message>& writer) const {
    BareRequest request;
    CF_CHECK(text.value().size() == sizeof request);
    std::memcpy(&request, text.value().data(), sizeof request);
    const auto* source = reinterpret_cast<const char*>(source_.data());
    int64_t at = 0;
    for (int64_t i = 0; i < request.num_chunks; ++i) {
      if (at + request.chunk_bytes > kSourceBytes) at = 0;
      if (!writer.Write(make(source + at, request.chunk_bytes))) break;
      at += request.chunk_bytes;
    }
    return grpc::Status::OK;
  }

  const std::vector<uint64_t> source_;
};

int64_t Gather(const grpc::ByteBuffer& message, char* out) {
  std::vector<grpc::Slice> slices;
  CF_CHECK(message.Dump(&slices).ok());
  int64_t at = 0;
  for (const grpc::Slice& slice : slices) {
    std::memcpy(out + at, slice.begin(), slice.size());
    at += static_cast<int64_t>(slice.size());
  }
  return at;
}

int64_t Gather(const BytesValue& message, char* out) {
  std::memcpy(out, message.value().data(), message.value().size());
  return static_cast<int64_t>(message.value().size());
}

void CheckOk(const grpc::Status& status) {
  if (!status.ok()) std::cerr << status.error_message() << std::endl;
  CF_CHECK(status.ok());
}

template <class Message>
int64_t Read(grpc::Channel& channel, const char* name, BareRequest request,
             std::vector<char>& out) {
  BytesValue text;
  text.set_value(&request, sizeof request);
  const grpc::internal::RpcMethod method(
      name, grpc::internal::RpcMethod::SERVER_STREAMING);
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  const std::unique_ptr<grpc::ClientReader<Message>> reader(
      grpc::internal::ClientReaderFactory<Message>::Create(&channel, method,
                                                           &context, text));
  int64_t bytes = 0;
  int64_t at = 0;
  Message message;
  while (reader->Read(&message)) {
    // A raw message has a few bytes more than its chunk.
    if (at + request.chunk_bytes + 16 > static_cast<int64_t>(out.size())) {
      at = 0;
    }
    const int64_t size = Gather(message, out.data() + at);
    at += size;
    bytes += size;
  }
  CheckOk(reader->Finish());
  return bytes;
}

}  // namespace

BareServer::BareServer() : service_(std::make_unique<BareService>()) {
  grpc::ServerBuilder builder;
  ApplyServerArguments(builder, kLookaheadBytes);
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port_);
  builder.RegisterService(service_.get());
  server_ = builder.BuildAndStart();
  CF_CHECK(server_ != nullptr);
}

BareServer::~BareServer() { server_->Shutdown(); }

int64_t ReadBareStream(const std::shared_ptr<grpc::Channel>& channel,
                       BareKind kind, BareRequest request,
                       std::vector<char>& out) {
  if (kind == BareKind::kRaw) {
    return Read<grpc::ByteBuffer>(*channel, kRawMethod, request, out);
  }
  return Read<BytesValue>(*channel, kBytesMethod, request, out);
}

void PingBare(const std::shared_ptr<grpc::Channel>& channel) {
  const grpc::internal::RpcMethod method(kPingMethod,
                                         grpc::internal::RpcMethod::NORMAL_RPC);
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  BytesValue request;
  BytesValue response;
  request.set_value("ping");
  CheckOk(grpc::internal::BlockingUnaryCall<BytesValue, BytesValue>(
      channel.get(), method, &context, request, &response));
  CF_CHECK(response.value() == request.value());
}

}  // namespace cpfeed::bench

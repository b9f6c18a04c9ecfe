// One bidirectional streaming call on the client.

#ifndef CPFEED_TRANSPORT_CLIENT_STREAM_H_
#define CPFEED_TRANSPORT_CLIENT_STREAM_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/sync_stream.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "core/tensor/buffer.h"
#include "transport/raw_message.h"

namespace cpfeed {

// One thread may read while another writes. Messages are serialized protobuf
// (see core/wire/frame.h).
class ClientStream {
 public:
  // Starts a call of `method`, such as "/cpfeed.v1.IngestService/PutBatches".
  // The first read or write tells whether it came through. `traceparent` is the
  // W3C header that ties the call to the caller's trace; empty sends none.
  ClientStream(std::shared_ptr<grpc::Channel> channel,
               const std::string& method, const std::string& traceparent = "");
  ~ClientStream();
  ClientStream(const ClientStream&) = delete;
  ClientStream& operator=(const ClientStream&) = delete;

  // Blocks while flow control holds it back. False: the call has ended.
  bool Write(const Buffer& message);

  // Blocks for the next message. False: the call has ended.
  bool Read(Buffer& message);

  // No more writes.
  void WritesDone();

  // The call's status, after Read returned false. Blocks until it is there.
  absl::Status Finish();

  // Ends the call at once; reads and writes return false.
  void Cancel();

 private:
  std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<RawMessage, RawMessage>> stream_;
  bool finished_ = false;
};

}  // namespace cpfeed

#endif  // CPFEED_TRANSPORT_CLIENT_STREAM_H_

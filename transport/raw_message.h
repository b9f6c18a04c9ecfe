// Stream messages as gRPC carries them, without a copy in between.

#ifndef CPFEED_TRANSPORT_RAW_MESSAGE_H_
#define CPFEED_TRANSPORT_RAW_MESSAGE_H_

#include <grpcpp/impl/codegen/serialization_traits.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include "core/tensor/buffer.h"

namespace cpfeed {

// The serialized bytes of one protobuf message. Methods whose type this is read
// and write ordinary messages on the wire; core/wire/frame.h takes them apart.
struct RawMessage {
  Buffer bytes;
};

// Hands fragments over as slices: gRPC keeps their owners until the bytes are
// sent. Small fragments are copied, for a slice costs more than they do.
grpc::ByteBuffer ToByteBuffer(const Buffer& buffer);

// Refers to the slices that gRPC received.
//
// Errors:
//   INTERNAL  gRPC cannot decompress them.
grpc::Status FromByteBuffer(const grpc::ByteBuffer& bytes, Buffer& buffer);

}  // namespace cpfeed

namespace grpc {

template <>
class SerializationTraits<cpfeed::RawMessage, void> {
 public:
  static Status Serialize(const cpfeed::RawMessage& message, ByteBuffer* out,
                          bool* own_buffer) {
    *out = cpfeed::ToByteBuffer(message.bytes);
    *own_buffer = true;
    return Status::OK;
  }

  static Status Deserialize(ByteBuffer* bytes, cpfeed::RawMessage* message) {
    Status status = cpfeed::FromByteBuffer(*bytes, message->bytes);
    bytes->Clear();
    return status;
  }
};

}  // namespace grpc

#endif  // CPFEED_TRANSPORT_RAW_MESSAGE_H_

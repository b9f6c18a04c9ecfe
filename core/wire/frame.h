// Stream messages whose payload is never copied.
//
// A stream message is an ordinary protobuf message of small fields and, last,
// `bytes payload = 15`. Anybody may read and write it with plain protobuf. The
// codec here takes the same bytes apart so that the small fields are parsed by
// protobuf and the payload stays where it arrived, or leaves from where it
// lies.

#ifndef CPFEED_CORE_WIRE_FRAME_H_
#define CPFEED_CORE_WIRE_FRAME_H_

#include <google/protobuf/message_lite.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/tensor/buffer.h"

namespace cpfeed {

// Field number of the payload in every stream message.
inline constexpr int kPayloadField = 15;

// More bytes than this beside the payload are refused.
inline constexpr int64_t kMaxHeaderBytes = 64 << 10;

// A message taken apart.
struct Frame {
  std::string header;  // The serialized fields other than the payload.
  Buffer payload;      // The payload's bytes, shared with the message.
};

// Takes a serialized message apart. Of several payload fields the last counts,
// as for protobuf.
//
// Errors:
//   INVALID_ARGUMENT  The bytes are no message (truncated, bad tag or length,
//                     groups), or the header is above kMaxHeaderBytes.
absl::StatusOr<Frame> DecodeFrame(const Buffer& message);

// Puts a message together: header, then the payload (left out where empty).
Buffer EncodeFrame(const std::string& header, const Buffer& payload);

// The same with the header as a message; `header` must not use the payload
// field.
Buffer EncodeMessage(const google::protobuf::MessageLite& header,
                     const Buffer& payload);

// Parses `message` into `header`, without its payload, and returns the payload.
//
// Errors:
//   INVALID_ARGUMENT  As DecodeFrame, or protobuf cannot parse the header.
absl::StatusOr<Buffer> DecodeMessage(const Buffer& message,
                                     google::protobuf::MessageLite& header);

}  // namespace cpfeed

#endif  // CPFEED_CORE_WIRE_FRAME_H_

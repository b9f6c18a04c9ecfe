// Cursors on the wire: places between two steps, with a checksum.

#ifndef CPFEED_CORE_WIRE_CURSOR_CODEC_H_
#define CPFEED_CORE_WIRE_CURSOR_CODEC_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cpfeed/v1/session.pb.h"
#include "google/protobuf/message_lite.h"

namespace cpfeed {

inline constexpr int kCursorVersion = 1;

// Sets version and checksum of a cursor whose other fields are filled in.
void SealCursor(v1::Cursor& cursor);

// Checks version and checksum.
//
// Errors:
//   FAILED_PRECONDITION  CURSOR_MISMATCH: of another version, or changed.
absl::Status CheckCursor(const v1::Cursor& cursor);

// The bytes of `message` with maps and fields in a fixed order, so that equal
// messages have equal bytes in one build.
std::string SerializeDeterministic(
    const google::protobuf::MessageLite& message);

}  // namespace cpfeed

#endif  // CPFEED_CORE_WIRE_CURSOR_CODEC_H_

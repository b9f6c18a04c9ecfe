#include "core/wire/cursor_codec.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "absl/strings/str_cat.h"
#include "core/base/digest.h"
#include "core/base/error.h"

namespace cpfeed {
namespace {

uint64_t ChecksumOf(const v1::Cursor& cursor) {
  v1::Cursor copy = cursor;
  copy.clear_checksum();
  const std::string bytes = SerializeDeterministic(copy);
  return Digest(bytes.data(), static_cast<int64_t>(bytes.size()));
}

}  // namespace

std::string SerializeDeterministic(
    const google::protobuf::MessageLite& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

void SealCursor(v1::Cursor& cursor) {
  cursor.set_version(kCursorVersion);
  cursor.set_checksum(ChecksumOf(cursor));
}

absl::Status CheckCursor(const v1::Cursor& cursor) {
  if (cursor.version() != kCursorVersion) {
    return MakeError(absl::StatusCode::kFailedPrecondition, kCursorMismatch,
                     absl::StrCat("cursor has version ", cursor.version(),
                                  "; must be ", kCursorVersion));
  }
  if (cursor.checksum() != ChecksumOf(cursor)) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition, kCursorMismatch,
        absl::StrCat("cursor has checksum ", absl::Hex(cursor.checksum()),
                     "; its fields give ", absl::Hex(ChecksumOf(cursor))));
  }
  return absl::OkStatus();
}

}  // namespace cpfeed

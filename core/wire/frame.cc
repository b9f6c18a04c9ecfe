#include "core/wire/frame.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

constexpr uint64_t kWireVarint = 0;
constexpr uint64_t kWireFixed64 = 1;
constexpr uint64_t kWireBytes = 2;
constexpr uint64_t kWireFixed32 = 5;
constexpr uint8_t kPayloadTag = kPayloadField << 3 | kWireBytes;
constexpr int kMaxVarintBytes = 10;
// Protobuf refuses longer tags and lengths, zeros in front included.
constexpr int kMaxTagBytes = 5;

absl::Status Malformed(int64_t offset, absl::string_view what) {
  return InvalidArgument(kProtocolError,
                         absl::StrCat("message at byte ", offset, ": ", what));
}

// Reads a fragmented message front to back.
class Reader {
 public:
  explicit Reader(const Buffer& message) : message_(message) {}

  bool AtEnd() const { return offset_ == message_.size(); }
  int64_t offset() const { return offset_; }
  int64_t left() const { return message_.size() - offset_; }

  // The next varint, of at most `max_bytes`. Bits above 64 are dropped, as
  // protobuf does.
  absl::StatusOr<uint64_t> Varint(int max_bytes) {
    uint64_t value = 0;
    for (int i = 0; i < max_bytes; ++i) {
      if (AtEnd()) return Malformed(offset_, "truncated varint");
      const uint8_t byte = NextByte();
      value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
      if (byte < 0x80) return value;
    }
    return Malformed(
        offset_, absl::StrCat("varint is longer than ", max_bytes, " bytes"));
  }

  // Takes the next `size` bytes as they are. Must not exceed left().
  Buffer Take(int64_t size) {
    Buffer taken = message_.Slice(offset_, size);
    Skip(size);
    return taken;
  }

  void Skip(int64_t size) {
    offset_ += size;
    const auto fragments = message_.fragments();
    in_fragment_ += size;
    while (i_ < fragments.size() && in_fragment_ >= fragments[i_].size) {
      in_fragment_ -= fragments[i_].size;
      ++i_;
    }
  }

 private:
  uint8_t NextByte() {
    const auto byte =
        static_cast<uint8_t>(message_.fragments()[i_].data[in_fragment_]);
    Skip(1);
    return byte;
  }

  const Buffer& message_;
  int64_t offset_ = 0;
  size_t i_ = 0;             // Fragment of offset_.
  int64_t in_fragment_ = 0;  // Offset in it.
};

// The length of a field of bytes, which are all there.
absl::StatusOr<int64_t> ReadLength(Reader& reader) {
  CF_ASSIGN_OR_RETURN(const uint64_t length, reader.Varint(kMaxTagBytes));
  if (length > static_cast<uint64_t>(reader.left())) {
    return Malformed(reader.offset(),
                     absl::StrCat("length ", length, "; only ", reader.left(),
                                  " bytes are left"));
  }
  return static_cast<int64_t>(length);
}

// Moves past one field's value.
absl::Status SkipValue(Reader& reader, uint64_t wire_type) {
  int64_t size = 0;
  switch (wire_type) {
    case kWireVarint:
      return reader.Varint(kMaxVarintBytes).status();
    case kWireFixed64:
      size = 8;
      break;
    case kWireFixed32:
      size = 4;
      break;
    case kWireBytes: {
      CF_ASSIGN_OR_RETURN(size, ReadLength(reader));
      break;
    }
    default:
      return Malformed(reader.offset(), absl::StrCat("wire type ", wire_type));
  }
  if (size > reader.left()) {
    return Malformed(reader.offset(), "truncated field");
  }
  reader.Skip(size);
  return absl::OkStatus();
}

absl::Status AppendHeader(const Buffer& field, std::string& header) {
  if (static_cast<int64_t>(header.size()) + field.size() > kMaxHeaderBytes) {
    return InvalidArgument(
        kMessageTooLarge,
        absl::StrCat("header has more than ", kMaxHeaderBytes, " bytes"));
  }
  const size_t before = header.size();
  header.resize(before + field.size());
  field.CopyTo(header.data() + before);
  return absl::OkStatus();
}

void AppendVarint(uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) {
    out.push_back(static_cast<char>(value | 0x80));
  }
  out.push_back(static_cast<char>(value));
}

}  // namespace

absl::StatusOr<Frame> DecodeFrame(const Buffer& message) {
  Frame frame;
  Reader reader(message);
  while (!reader.AtEnd()) {
    const int64_t begin = reader.offset();
    CF_ASSIGN_OR_RETURN(const uint64_t tag, reader.Varint(kMaxTagBytes));
    if (tag > UINT32_MAX || tag >> 3 == 0) {
      return Malformed(begin, absl::StrCat("tag ", tag));
    }
    if (tag == kPayloadTag) {
      CF_ASSIGN_OR_RETURN(const int64_t length, ReadLength(reader));
      frame.payload = reader.Take(length);
      continue;
    }
    CF_RETURN_IF_ERROR(SkipValue(reader, tag & 7));
    CF_RETURN_IF_ERROR(AppendHeader(
        message.Slice(begin, reader.offset() - begin), frame.header));
  }
  return frame;
}

Buffer EncodeFrame(const std::string& header, const Buffer& payload) {
  std::string lead = header;
  if (payload.size() > 0) {
    lead.push_back(static_cast<char>(kPayloadTag));
    AppendVarint(static_cast<uint64_t>(payload.size()), lead);
  }
  Buffer message =
      Buffer::CopyOf(lead.data(), static_cast<int64_t>(lead.size()));
  message.Append(payload);
  return message;
}

Buffer EncodeMessage(const google::protobuf::MessageLite& header,
                     const Buffer& payload) {
  return EncodeFrame(header.SerializeAsString(), payload);
}

absl::StatusOr<Buffer> DecodeMessage(const Buffer& message,
                                     google::protobuf::MessageLite& header) {
  CF_ASSIGN_OR_RETURN(Frame frame, DecodeFrame(message));
  if (!header.ParseFromString(frame.header)) {
    return InvalidArgument(
        kProtocolError, absl::StrCat("message is no ", header.GetTypeName()));
  }
  return std::move(frame.payload);
}

}  // namespace cpfeed

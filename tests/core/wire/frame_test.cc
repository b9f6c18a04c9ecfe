// The frame codec against protobuf itself.

#include "core/wire/frame.h"

#include <gmock/gmock.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/tensor/buffer.h"
#include "cpfeed/v1/ingest.pb.h"
#include "cpfeed/v1/shard.pb.h"
#include "cpfeed/v1/tensor.pb.h"
#include "tests/core/wire/random_message.h"
#include "tests/testing/random_cut.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::FillAtRandom;
using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::RandomlyCut;
using ::cpfeed::testing::StatusIs;
using ::google::protobuf::Message;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

Buffer BufferOf(const std::string& bytes) {
  return Buffer::CopyOf(bytes.data(), static_cast<int64_t>(bytes.size()));
}

std::string StringOf(const Buffer& buffer) {
  std::string bytes(static_cast<size_t>(buffer.size()), '\0');
  buffer.CopyTo(bytes.data());
  return bytes;
}

std::string RandomBytes(int64_t size, std::mt19937_64& random) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

void SetPayload(Message& message, const std::string& payload) {
  const auto* field = message.GetDescriptor()->FindFieldByNumber(kPayloadField);
  ASSERT_NE(field, nullptr);
  message.GetReflection()->SetString(&message, field, payload);
}

// The types whose payload travels in frames.
class FrameCodecTest : public ::testing::TestWithParam<const Message*> {
 protected:
  std::unique_ptr<Message> New() const {
    return std::unique_ptr<Message>(GetParam()->New());
  }

  // What DecodeMessage reads, as one protobuf message.
  absl::StatusOr<std::unique_ptr<Message>> Decode(const Buffer& bytes) const {
    std::unique_ptr<Message> message = New();
    absl::StatusOr<Buffer> payload = DecodeMessage(bytes, *message);
    if (!payload.ok()) return payload.status();
    SetPayload(*message, StringOf(*payload));
    return message;
  }

  // Whether the codec reads these bytes as protobuf does, or refuses them.
  // What protobuf takes is refused for few reasons.
  void ExpectAgreement(const std::string& bytes, std::mt19937_64& random) {
    const std::unique_ptr<Message> expected = New();
    const bool valid = expected->ParseFromString(bytes);
    const auto decoded = Decode(RandomlyCut(BufferOf(bytes), 9, random));
    if (!decoded.ok()) {
      EXPECT_THAT(decoded, HasReason(kProtocolError));
      if (valid) {
        EXPECT_THAT(decoded,
                    StatusIs(absl::StatusCode::kInvalidArgument,
                             AnyOf(HasSubstr("wire type"), HasSubstr("tag"))));
      }
      return;
    }
    ASSERT_TRUE(valid);
    EXPECT_EQ((*decoded)->SerializeAsString(), expected->SerializeAsString());
  }
};

TEST_P(FrameCodecTest, DecodesWhatProtobufWrites) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    const std::unique_ptr<Message> message = New();
    FillAtRandom(*message, random);
    SetPayload(*message, RandomBytes(random() % 200, random));
    const Buffer bytes = BufferOf(message->SerializeAsString());
    const auto decoded = Decode(RandomlyCut(bytes, random() % 40 + 1, random));
    ASSERT_THAT(decoded, IsOk());
    ASSERT_EQ((*decoded)->SerializeAsString(), message->SerializeAsString());
  }
}

TEST_P(FrameCodecTest, ProtobufReadsWhatItEncodes) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 300; ++round) {
    const std::unique_ptr<Message> message = New();
    FillAtRandom(*message, random);
    const std::string payload = RandomBytes(random() % 200, random);
    const Buffer bytes = EncodeMessage(*message, BufferOf(payload));
    SetPayload(*message, payload);
    const std::unique_ptr<Message> parsed = New();
    ASSERT_TRUE(parsed->ParseFromString(StringOf(bytes)));
    ASSERT_EQ(parsed->SerializeAsString(), message->SerializeAsString());
    // To the byte: the payload is the last field of the number order.
    ASSERT_EQ(StringOf(bytes), message->SerializeAsString());
  }
}

TEST_P(FrameCodecTest, TruncatedMessagesAreReadAsProtobufDoes) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 20; ++round) {
    const std::unique_ptr<Message> message = New();
    FillAtRandom(*message, random);
    SetPayload(*message, RandomBytes(random() % 30 + 1, random));
    const std::string bytes = message->SerializeAsString();
    for (size_t size = 0; size < bytes.size(); ++size) {
      ExpectAgreement(bytes.substr(0, size), random);
      if (HasFailure()) return;
    }
  }
}

TEST_P(FrameCodecTest, EveryChangeOfAByteIsReadAsProtobufDoes) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 3; ++round) {
    const std::unique_ptr<Message> message = New();
    do {
      message->Clear();
      FillAtRandom(*message, random);
    } while (message->ByteSizeLong() > 150);
    SetPayload(*message, RandomBytes(5, random));
    const std::string bytes = message->SerializeAsString();
    for (size_t at = 0; at < bytes.size(); ++at) {
      for (int value = 0; value < 256; ++value) {
        std::string changed = bytes;
        changed[at] = static_cast<char>(value);
        ExpectAgreement(changed, random);
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(FrameCodecTest, RandomBytesAreReadAsProtobufDoes) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 20'000; ++round) {
    ExpectAgreement(RandomBytes(random() % 24, random), random);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, FrameCodecTest,
    ::testing::Values(&v1::PutBatchesRequest::default_instance(),
                      &v1::PutBatchesResponse::default_instance(),
                      &v1::StreamShardsResponse::default_instance(),
                      &v1::Tensor::default_instance()),
    [](const auto& info) { return info.param->GetDescriptor()->name(); });

std::string ChunkHeader() {
  v1::PutBatchesRequest request;
  request.mutable_chunk()->set_offset(300);
  return request.SerializeAsString();
}

TEST(FrameTest, PayloadIsNotCopied) {
  // header | tag, length | payload        in fragments of
  // [....... ......|.........|..........]
  const Buffer sent = Buffer::CopyOf("0123456789", 10);
  const Buffer message = EncodeFrame(ChunkHeader(), sent);
  ASSERT_EQ(message.fragments().size(), 2);
  EXPECT_EQ(message.fragments()[1].data, sent.data());

  const auto frame = DecodeFrame(message);
  ASSERT_THAT(frame, IsOk());
  EXPECT_EQ(frame->payload.data(), sent.data());

  std::mt19937_64 random(6);
  const Buffer cut = RandomlyCut(message, 3, random);
  const auto again = DecodeFrame(cut);
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(StringOf(again->payload), "0123456789");
  for (const Buffer::Fragment& part : again->payload.fragments()) {
    bool shared = false;
    for (const Buffer::Fragment& whole : cut.fragments()) {
      shared |= whole.data <= part.data &&
                part.data + part.size <= whole.data + whole.size;
    }
    EXPECT_TRUE(shared);
  }
}

TEST(FrameTest, PayloadKeepsItsBytesAlive) {
  auto bytes = std::make_shared<std::string>(ChunkHeader() +
                                             "\x7a\x03"
                                             "abc");
  const std::weak_ptr<std::string> alive = bytes;
  auto message = std::make_unique<Buffer>(
      Buffer::Wrap(bytes, bytes->data(), static_cast<int64_t>(bytes->size())));
  bytes.reset();
  absl::StatusOr<Frame> frame = DecodeFrame(*message);
  message.reset();
  EXPECT_EQ(StringOf(frame->payload), "abc");
  frame->payload = Buffer();
  EXPECT_TRUE(alive.expired());
}

TEST(FrameTest, EmptyMessageIsAFrame) {
  const auto frame = DecodeFrame(Buffer());
  ASSERT_THAT(frame, IsOk());
  EXPECT_EQ(frame->header, "");
  EXPECT_EQ(frame->payload.size(), 0);
  EXPECT_EQ(EncodeFrame("", Buffer()).size(), 0);
}

TEST(FrameTest, EmptyPayloadIsLeftOut) {
  EXPECT_EQ(StringOf(EncodeFrame(ChunkHeader(), Buffer())), ChunkHeader());
}

TEST(FrameTest, LastPayloadCountsWhereverItStands) {
  const auto frame =
      DecodeFrame(BufferOf("\x7a\x02xy" + ChunkHeader() + "\x7a\x01z"));
  ASSERT_THAT(frame, IsOk());
  EXPECT_EQ(frame->header, ChunkHeader());
  EXPECT_EQ(StringOf(frame->payload), "z");
}

TEST(FrameTest, HeaderIsBounded) {
  v1::PutBatchesRequest request;
  std::string& id = *request.mutable_batch()->mutable_batch_id();
  id.assign(kMaxHeaderBytes, 'x');
  while (static_cast<int64_t>(request.ByteSizeLong()) > kMaxHeaderBytes) {
    id.pop_back();
  }
  ASSERT_EQ(request.ByteSizeLong(), kMaxHeaderBytes);
  EXPECT_THAT(DecodeFrame(EncodeMessage(request, BufferOf("payload"))), IsOk());
  id.push_back('x');
  const auto frame = DecodeFrame(EncodeMessage(request, Buffer()));
  EXPECT_THAT(frame, StatusIs(absl::StatusCode::kInvalidArgument,
                              HasSubstr("more than 65536 bytes")));
  EXPECT_THAT(frame, HasReason(kMessageTooLarge));
}

TEST(FrameTest, UnknownFieldsCountAsHeader) {
  // 30000 fields of 3 bytes, which no message has.
  std::string bytes;
  for (int i = 0; i < 30'000; ++i) bytes += std::string("\xf0\x07\x00", 3);
  EXPECT_THAT(DecodeFrame(BufferOf(bytes)), HasReason(kMessageTooLarge));
}

TEST(FrameTest, LargePayloadIsNoLargeHeader) {
  const Buffer payload = BufferOf(std::string(8 << 20, 'p'));
  const auto frame = DecodeFrame(EncodeFrame(ChunkHeader(), payload));
  ASSERT_THAT(frame, IsOk());
  EXPECT_EQ(frame->payload.size(), 8 << 20);
}

TEST(FrameTest, HeaderOfAnotherMessageIsRefusedByName) {
  v1::PutBatchesRequest request;
  // Field 1 is a message there; here it is the number 5.
  const auto payload = DecodeMessage(BufferOf("\x0a\x01\xff"), request);
  EXPECT_THAT(payload, StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr("no cpfeed.v1.PutBatchesRequest")));
  EXPECT_THAT(payload, HasReason(kProtocolError));
}

struct BadBytes {
  std::string name;
  std::string bytes;
  std::string message;
};

class BadFrameTest : public ::testing::TestWithParam<BadBytes> {};

TEST_P(BadFrameTest, IsRefusedWithItsPlace) {
  const auto frame = DecodeFrame(BufferOf(GetParam().bytes));
  EXPECT_THAT(frame, StatusIs(absl::StatusCode::kInvalidArgument,
                              HasSubstr(GetParam().message)));
  EXPECT_THAT(frame, HasReason(kProtocolError));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadFrameTest,
    ::testing::ValuesIn(std::vector<BadBytes>{
        {"TagWithoutValue", "\x7a", "byte 1: truncated varint"},
        {"PayloadBeyondTheEnd",
         "\x7a\x05"
         "ab",
         "byte 2: length 5; only 2 bytes are left"},
        {"FieldBeyondTheEnd",
         "\x0a\x09"
         "a",
         "length 9; only 1 bytes"},
        {"LengthOfTwoGibibytes", "\x7a\xff\xff\xff\xff\x07",
         "length 2147483647; only 0 bytes"},
        {"LengthOfTenBytes",
         "\x7a\x81\x80\x80\x80\x80\x80\x80\x80\x80\x01"
         "a",
         "longer than 5 bytes"},
        {"LengthWithZerosInFront",
         std::string("\x7a\x81\x80\x80\x80\x80\x00"
                     "a",
                     7),
         "longer than 5 bytes"},
        {"TagOfSixBytes",
         std::string("\xfa\x80\x80\x80\x80\x00\x01"
                     "a",
                     8),
         "longer than 5 bytes"},
        {"TagAboveUint32",
         "\xfa\x80\x80\x80\x10\x01"
         "a",
         "byte 0: tag 4294967418"},
        {"FieldNumberZero",
         "\x02\x01"
         "a",
         "byte 0: tag 2"},
        {"ZeroTag", std::string("\x00", 1), "byte 0: tag 0"},
        {"Group", "\x0b\x0c", "byte 1: wire type 3"},
        {"EndOfGroup", "\x0c", "wire type 4"},
        {"WireTypeSix", "\x0e", "wire type 6"},
        {"VarintOfElevenBytes", "\x08" + std::string(10, '\xff') + "\x01",
         "longer than 10 bytes"},
        {"TruncatedFixed64",
         "\x09"
         "1234567",
         "truncated field"},
        {"TruncatedFixed32",
         "\x0d"
         "123",
         "truncated field"},
    }),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace cpfeed

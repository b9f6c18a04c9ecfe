#include "core/wire/step_gather.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>

#include "core/base/error.h"
#include "core/tensor/buffer.h"
#include "core/wire/shard_codec.h"
#include "core/wire/tensor_codec.h"
#include "tests/core/wire/encoded_steps.h"
#include "tests/testing/random_cut.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::EncodedTwoChunks;
using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::RandomlyCut;
using ::cpfeed::testing::StatusIs;
using ::cpfeed::testing::StringOf;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kMaxBytes = 1 << 20;

// A step as the server sends it: the cursor leads.
struct Sent {
  v1::StepHeader header;
  Buffer payload;
};

Sent WithCursor(const std::string& cursor) {
  EncodedStep step = EncodedTwoChunks();
  Sent sent{.header = step.header};
  sent.payload =
      Buffer::CopyOf(cursor.data(), static_cast<int64_t>(cursor.size()));
  sent.payload.Append(step.payload);
  sent.header.set_cursor_bytes(static_cast<int32_t>(cursor.size()));
  sent.header.set_payload_bytes(sent.payload.size());
  return sent;
}

int64_t TensorsWithBytes(const v1::StepHeader& header) {
  int64_t count = 0;
  for (const v1::ShardHeader& chunk : header.chunks()) {
    for (const v1::TensorSpec& spec : chunk.tensors()) {
      count += SpecBytes(spec) > 0;
    }
  }
  return count;
}

// Property: however the payload is cut into pieces, and those into fragments.
TEST(StepGatherTest, EachTensorIsOneAlignedFragment) {
  std::mt19937_64 random(1);
  for (const std::string cursor : {"", "cursor"}) {
    const Sent sent = WithCursor(cursor);
    for (int round = 0; round < 200; ++round) {
      auto gather = StepGather::Begin(sent.header, kMaxBytes);
      ASSERT_THAT(gather, IsOk());
      for (int64_t at = 0; at < sent.payload.size();) {
        ASSERT_EQ(gather->size(), at);
        ASSERT_FALSE(gather->complete());
        const int64_t bytes =
            std::min<int64_t>(random() % 200, sent.payload.size() - at);
        ASSERT_THAT(gather->Append(RandomlyCut(sent.payload.Slice(at, bytes),
                                               random() % 50 + 1, random)),
                    IsOk());
        at += bytes;
      }
      ASSERT_TRUE(gather->complete());
      const Buffer& payload = gather->payload();
      ASSERT_EQ(StringOf(payload), StringOf(sent.payload));
      ASSERT_EQ(payload.fragments().size(),
                TensorsWithBytes(sent.header) + (cursor.empty() ? 0 : 1));
      for (const Buffer::Fragment& fragment : payload.fragments()) {
        ASSERT_EQ(reinterpret_cast<uintptr_t>(fragment.data) % 64, 0);
      }
    }
  }
}

// Each byte of each tensor is under a checksum.
TEST(StepGatherTest, NoChangedByteOfATensorGoesUnnoticed) {
  const Sent sent = WithCursor("");
  std::string bytes = StringOf(sent.payload);
  for (size_t i = 0; i < bytes.size(); ++i) {
    auto gather = StepGather::Begin(sent.header, kMaxBytes);
    ASSERT_THAT(gather, IsOk());
    bytes[i] ^= 1;
    ASSERT_THAT(
        gather->Append(
            Buffer::CopyOf(bytes.data(), static_cast<int64_t>(bytes.size()))),
        AllOf(StatusIs(absl::StatusCode::kDataLoss, HasSubstr("checksum is")),
              HasReason(kChecksumMismatch)));
    bytes[i] ^= 1;
  }
}

TEST(StepGatherTest, MoreThanTheHeaderSaysIsRefused) {
  const Sent sent = WithCursor("cursor");
  auto gather = StepGather::Begin(sent.header, kMaxBytes);
  ASSERT_THAT(gather, IsOk());
  ASSERT_THAT(gather->Append(sent.payload), IsOk());
  ASSERT_TRUE(gather->complete());
  EXPECT_THAT(gather->Append(Buffer::CopyOf("x", 1)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("payload has more than the")));
  EXPECT_THAT(gather->Append(Buffer()), IsOk());
}

TEST(StepGatherTest, HeaderMustAddUp) {
  const Sent sent = WithCursor("cursor");
  for (const int64_t wrong :
       {int64_t{-1}, int64_t{0}, int64_t{5}, sent.payload.size() - 1,
        sent.payload.size() + 1}) {
    v1::StepHeader header = sent.header;
    header.set_payload_bytes(wrong);
    EXPECT_THAT(StepGather::Begin(header, kMaxBytes),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("payload_bytes is")));
  }
  v1::StepHeader header = sent.header;
  header.set_cursor_bytes(-6);
  header.set_payload_bytes(sent.payload.size() - 12);
  EXPECT_THAT(StepGather::Begin(header, kMaxBytes),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the cursor (-6 bytes)")));
}

// Claims cost nothing, also such that overflow when added up.
TEST(StepGatherTest, HugeClaimsAreRefused) {
  v1::StepHeader header = WithCursor("").header;
  header.set_payload_bytes(kMaxBytes + 1);
  EXPECT_THAT(StepGather::Begin(header, kMaxBytes),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("must be at most 1048576")));
  header.set_payload_bytes(kMaxBytes);
  for (v1::ShardHeader& chunk : *header.mutable_chunks()) {
    v1::TensorSpec& spec = *chunk.mutable_tensors(0);
    spec.set_dtype(v1::DTYPE_UINT8);
    spec.clear_shape();
    spec.add_shape(int64_t{1} << 62);
  }
  EXPECT_THAT(StepGather::Begin(header, kMaxBytes),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("payload_bytes is 1048576")));
}

}  // namespace
}  // namespace cpfeed

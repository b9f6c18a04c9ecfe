#include "core/wire/cursor_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/base/error.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::StatusIs;
using ::testing::HasSubstr;

v1::Cursor SealedCursor() {
  v1::Cursor cursor;
  cursor.set_generation(3);
  cursor.set_step(41);
  cursor.set_spec_digest(0xabcdef);
  for (const char* id : {"a", "b"}) {
    v1::ProducerCursor& producer = *cursor.add_producers();
    producer.set_producer(id);
    producer.set_next_sequence(21);
    producer.set_producer_state(std::string("\x00\xff state", 8));
  }
  SealCursor(cursor);
  return cursor;
}

TEST(CursorCodecTest, SealedCursorPasses) {
  const v1::Cursor cursor = SealedCursor();
  EXPECT_EQ(cursor.version(), 1);
  EXPECT_NE(cursor.checksum(), 0);
  EXPECT_THAT(CheckCursor(cursor), IsOk());
  v1::Cursor copy;
  ASSERT_TRUE(copy.ParseFromString(SerializeDeterministic(cursor)));
  EXPECT_THAT(CheckCursor(copy), IsOk());
}

TEST(CursorCodecTest, SealingAgainChangesNothing) {
  v1::Cursor cursor = SealedCursor();
  const uint64_t checksum = cursor.checksum();
  SealCursor(cursor);
  EXPECT_EQ(cursor.checksum(), checksum);
}

TEST(CursorCodecTest, ChangedCursorIsRefused) {
  v1::Cursor cursor = SealedCursor();
  cursor.set_step(42);
  EXPECT_THAT(CheckCursor(cursor),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("its fields give")));
  EXPECT_THAT(CheckCursor(cursor), HasReason(kCursorMismatch));
  cursor = SealedCursor();
  cursor.mutable_producers(1)->set_next_sequence(22);
  EXPECT_THAT(CheckCursor(cursor), HasReason(kCursorMismatch));
  cursor = SealedCursor();
  cursor.mutable_producers()->SwapElements(0, 1);
  EXPECT_THAT(CheckCursor(cursor), HasReason(kCursorMismatch));
  EXPECT_THAT(CheckCursor(v1::Cursor()), HasReason(kCursorMismatch));
}

TEST(CursorCodecTest, OtherVersionIsRefusedByNumber) {
  v1::Cursor cursor = SealedCursor();
  cursor.set_version(2);
  EXPECT_THAT(CheckCursor(cursor),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("version 2; must be 1")));
}

// Any change of a byte of a stored cursor: another cursor, or no message.
TEST(CursorCodecTest, ChangeOfAnyByteIsNoticed) {
  const std::string bytes = SerializeDeterministic(SealedCursor());
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(value);
      v1::Cursor cursor;
      if (changed == bytes || !cursor.ParseFromString(changed)) continue;
      EXPECT_FALSE(CheckCursor(cursor).ok()) << at << " " << value;
    }
  }
}

}  // namespace
}  // namespace cpfeed

#include "core/tensor/element_cursor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/testing/packed_batches.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::CountingTensor;
using ::cpfeed::testing::Fragmented;

TEST(ElementCursorTest, RunsAreAsLongAsFragmentsAllow) {
  // 8-byte elements in fragments of 20 bytes: 2 whole, 1 cut, 1 whole, 1 cut...
  const Tensor tensor = Fragmented(CountingTensor({5}), 20);
  ElementCursor cursor(tensor.bytes, 8);
  EXPECT_EQ(cursor.Peek().count, 2);
  cursor.Advance(1);
  EXPECT_EQ(cursor.Peek().count, 1);
  EXPECT_EQ(cursor.Value(), 1);
  cursor.Advance(1);
  EXPECT_EQ(cursor.Peek().count, 1);
  EXPECT_EQ(cursor.Value(), 2);
  cursor.Skip(2);
  EXPECT_EQ(cursor.Value(), 4);
  cursor.Skip(1);
  EXPECT_EQ(cursor.Peek().count, 0);
}

TEST(ElementCursorTest, EmptyBufferIsAtItsEnd) {
  const Buffer empty;
  ElementCursor cursor(empty, 4);
  EXPECT_EQ(cursor.Peek().count, 0);
  EXPECT_EQ(cursor.SkipEqual(3, 0), 0);
}

TEST(ElementCursorTest, ValueThatTheElementsCannotHoldEqualsNone) {
  const Buffer bytes = Buffer::FromVector(std::vector<uint8_t>{0, 0});
  ElementCursor cursor(bytes, 1);
  EXPECT_EQ(cursor.SkipEqual(2, 256), 0);
}

// Property: SkipEqual agrees with a loop over the values.
TEST(ElementCursorTest, SkipEqualStopsAtTheFirstOther) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 200; ++round) {
    std::vector<int64_t> values(random() % 400 + 1, 1);
    const size_t other = random() % (values.size() + 50);
    if (other < values.size()) values[other] = int64_t{1} << 40 | 1;
    const size_t limit = random() % 500;
    const Tensor tensor = Fragmented(
        Tensor::FromVector({static_cast<int64_t>(values.size())}, values),
        random() % 700 + 1);
    ElementCursor cursor(tensor.bytes, 8);
    EXPECT_EQ(cursor.SkipEqual(limit, 1),
              std::min({limit, other, values.size()}));
  }
}

}  // namespace
}  // namespace cpfeed

#include "core/tensor/buffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/base/digest.h"
#include "tests/testing/random_cut.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::RandomlyCut;

std::string StringOf(const Buffer& buffer) {
  std::string bytes(static_cast<size_t>(buffer.size()), '\0');
  buffer.CopyTo(bytes.data());
  return bytes;
}

Buffer BufferOf(const std::string& bytes) {
  return Buffer::CopyOf(bytes.data(), static_cast<int64_t>(bytes.size()));
}

// A buffer of one fragment, and something that tells when it is freed.
std::pair<Buffer, std::weak_ptr<std::string>> Watched(std::string bytes) {
  auto owner = std::make_shared<std::string>(std::move(bytes));
  Buffer buffer =
      Buffer::Wrap(owner, owner->data(), static_cast<int64_t>(owner->size()));
  return {std::move(buffer), owner};
}

bool IsAligned(const std::byte* data, int64_t alignment) {
  return reinterpret_cast<uintptr_t>(data) % alignment == 0;
}

TEST(BufferTest, EmptyBufferHasNoBytesAndNoFragments) {
  const Buffer empty;
  EXPECT_EQ(empty.size(), 0);
  EXPECT_EQ(empty.data(), nullptr);
  EXPECT_TRUE(empty.fragments().empty());
  EXPECT_EQ(empty.Slice(0, 0).size(), 0);
  EXPECT_EQ(empty.Contiguous().size(), 0);
  EXPECT_EQ(empty.Checksum(), Digest(nullptr, 0));
  empty.CopyTo(nullptr);
  EXPECT_EQ(Buffer::CopyOf(nullptr, 0).size(), 0);
  EXPECT_EQ(Buffer::FromVector(std::vector<int64_t>()).size(), 0);
}

TEST(BufferTest, EmptyFragmentsAreLeftOut) {
  Buffer buffer;
  buffer.Append(Buffer());
  buffer.Append({.owner = nullptr, .data = nullptr, .size = 0});
  buffer.Append(BufferOf("ab"));
  buffer.Append(Buffer());
  EXPECT_EQ(buffer.fragments().size(), 1);
  EXPECT_EQ(StringOf(buffer), "ab");
}

TEST(BufferTest, VectorIsTakenOverNotCopied) {
  std::vector<int32_t> values = {1, 2, 3};
  const void* const address = values.data();
  const Buffer buffer = Buffer::FromVector(std::move(values));
  EXPECT_EQ(buffer.data(), address);
  EXPECT_EQ(buffer.size(), 12);
}

TEST(BufferTest, AllocatedBytesAreAlignedToCacheLines) {
  for (const int64_t size : {1, 63, 64, 1000}) {
    auto [buffer, bytes] = Buffer::Allocate(size);
    EXPECT_EQ(buffer.size(), size);
    EXPECT_EQ(buffer.data(), bytes);
    EXPECT_TRUE(IsAligned(bytes, 64));
  }
  EXPECT_EQ(Buffer::Allocate(0).second, nullptr);
}

TEST(BufferTest, CopiesShareTheBytes) {
  const Buffer buffer = BufferOf("abc");
  const std::vector<Buffer> copies(2, buffer);
  EXPECT_EQ(copies[1].data(), buffer.data());
}

TEST(BufferTest, AppendingABufferToItselfDoublesIt) {
  Buffer buffer = BufferOf("ab");
  buffer.Append(BufferOf("c"));
  buffer.Append(buffer);
  EXPECT_EQ(StringOf(buffer), "abcabc");
}

TEST(BufferTest, FragmentIsFreedWithItsLastUser) {
  auto [first, first_alive] = Watched("abc");
  auto [second, second_alive] = Watched("def");
  Buffer whole = std::exchange(first, Buffer());
  whole.Append(std::exchange(second, Buffer()));
  Buffer slice = whole.Slice(4, 2);   // "ef"
  Buffer middle = whole.Slice(2, 2);  // "cd"
  whole = Buffer();
  EXPECT_FALSE(first_alive.expired());
  middle = Buffer();
  EXPECT_TRUE(first_alive.expired());
  EXPECT_FALSE(second_alive.expired());
  EXPECT_EQ(StringOf(slice), "ef");
  slice = Buffer();
  EXPECT_TRUE(second_alive.expired());
}

TEST(BufferTest, SliceThatEndsAtABorderDoesNotKeepTheNextFragment) {
  auto [first, first_alive] = Watched("abc");
  auto [second, second_alive] = Watched("def");
  Buffer whole = std::exchange(first, Buffer());
  whole.Append(std::exchange(second, Buffer()));
  const Buffer head = whole.Slice(0, 3);
  const Buffer nothing = whole.Slice(3, 0);
  whole = Buffer();
  EXPECT_TRUE(second_alive.expired());
  EXPECT_EQ(StringOf(head), "abc");
  EXPECT_EQ(nothing.size(), 0);
}

TEST(BufferTest, ContiguousCopyLetsTheFragmentsGo) {
  auto [first, first_alive] = Watched("abc");
  Buffer whole = std::exchange(first, Buffer());
  whole.Append(BufferOf("def"));
  const Buffer contiguous = whole.Contiguous();
  whole = Buffer();
  EXPECT_TRUE(first_alive.expired());
  EXPECT_EQ(StringOf(contiguous), "abcdef");
}

TEST(BufferTest, ContiguousCopiesOnlyWhatIsCutOrUnaligned) {
  auto [aligned, bytes] = Buffer::Allocate(64);
  EXPECT_EQ(aligned.Contiguous().data(), bytes);
  EXPECT_EQ(aligned.Contiguous(64).data(), bytes);
  const Buffer odd = aligned.Slice(4, 8);
  EXPECT_EQ(odd.Contiguous(4).data(), bytes + 4);
  const Buffer copy = odd.Contiguous(8);
  EXPECT_NE(copy.data(), bytes + 4);
  EXPECT_TRUE(IsAligned(copy.data(), 8));
  EXPECT_EQ(StringOf(copy), StringOf(odd));
}

// Property: slices of cut bytes are slices of the bytes.
TEST(BufferTest, SlicesAreThoseOfTheBytes) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    std::string bytes(random() % 300, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    const auto size = static_cast<int64_t>(bytes.size());
    const Buffer buffer =
        RandomlyCut(BufferOf(bytes), random() % 60 + 1, random);
    ASSERT_EQ(buffer.size(), size);
    ASSERT_EQ(StringOf(buffer), bytes);
    for (int i = 0; i < 20; ++i) {
      const int64_t begin = random() % (size + 1);
      const int64_t length = random() % (size - begin + 1);
      const Buffer slice = buffer.Slice(begin, length);
      ASSERT_EQ(StringOf(slice), bytes.substr(begin, length));
      std::string copy(length, '\0');
      buffer.CopyRange(begin, length, copy.data());
      ASSERT_EQ(copy, bytes.substr(begin, length));
      ASSERT_EQ(slice.Checksum(), Digest(bytes.data() + begin, length));
      const int64_t inner = random() % (length + 1);
      ASSERT_EQ(StringOf(slice.Slice(inner, length - inner)),
                bytes.substr(begin + inner, length - inner));
      ASSERT_EQ(StringOf(slice.Contiguous(64)), bytes.substr(begin, length));
    }
  }
}

TEST(BufferTest, SlicesShareTheBytes) {
  const Buffer first = BufferOf("abc");
  const Buffer second = BufferOf("def");
  Buffer whole = first;
  whole.Append(second);
  const Buffer slice = whole.Slice(1, 4);
  ASSERT_EQ(slice.fragments().size(), 2);
  EXPECT_EQ(slice.fragments()[0].data, first.data() + 1);
  EXPECT_EQ(slice.fragments()[1].data, second.data());
}

TEST(BufferDeathTest, SliceBeyondTheEndIsABrokenInvariant) {
  const Buffer buffer = BufferOf("abc");
  EXPECT_DEATH(buffer.Slice(2, 2), "broken invariant");
  EXPECT_DEATH(buffer.Slice(-1, 1), "broken invariant");
  EXPECT_DEATH(buffer.Slice(4, 0), "broken invariant");
  EXPECT_DEATH(buffer.Slice(1, INT64_MAX), "broken invariant");
}

TEST(BufferDeathTest, CutBytesHaveNoOneAddress) {
  Buffer buffer = BufferOf("abc");
  buffer.Append(BufferOf("d"));
  EXPECT_DEATH(buffer.data(), "broken invariant");
}

}  // namespace
}  // namespace cpfeed

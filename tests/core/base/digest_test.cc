#include "core/base/digest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace cpfeed {
namespace {

// XXH3's own answers (xxhsum -H3), so that clients in other languages agree.
TEST(DigestTest, IsXxh3) {
  EXPECT_EQ(Digest(nullptr, 0), 0x2d06800538d394c2);
  EXPECT_EQ(Digest("a", 1), 0xe6c632b61e964e1f);
  EXPECT_EQ(Digest("abc", 3), 0x78af5f94892f3950);
}

TEST(DigestTest, NothingGivenIsTheDigestOfNoBytes) {
  DigestBuilder builder;
  EXPECT_EQ(builder.Finish(), Digest(nullptr, 0));
  builder.Update(nullptr, 0);
  EXPECT_EQ(builder.Finish(), Digest(nullptr, 0));
}

// Lengths on both sides of the places where XXH3 changes its method and where
// its stream fills a block.
TEST(DigestTest, PiecesDoNotMatter) {
  std::mt19937_64 random(1);
  for (const int64_t size :
       {1, 3, 16, 17, 128, 129, 240, 241, 256, 257, 1023, 1024, 1025, 70'000}) {
    std::string bytes(size, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    for (int round = 0; round < 20; ++round) {
      DigestBuilder builder;
      for (int64_t at = 0; at < size;) {
        const int64_t piece =
            std::min<int64_t>(random() % (round % 2 == 0 ? 7 : 400), size - at);
        builder.Update(bytes.data() + at, piece);
        at += piece;
      }
      EXPECT_EQ(builder.Finish(), Digest(bytes.data(), size)) << size;
    }
  }
}

TEST(DigestTest, FinishTellsOfAllUntilNow) {
  DigestBuilder builder;
  builder.Update("a", 1);
  EXPECT_EQ(builder.Finish(), Digest("a", 1));
  EXPECT_EQ(builder.Finish(), Digest("a", 1));
  builder.Update("bc", 2);
  EXPECT_EQ(builder.Finish(), Digest("abc", 3));
}

TEST(DigestTest, NumbersAreLittleEndian) {
  const uint8_t bytes[] = {1,    2,    0,    0,    0,    0,    0,    0,
                           0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  DigestBuilder builder;
  builder.UpdateInt64({0x201});
  builder.UpdateInt64({});
  builder.UpdateInt64({-1});
  EXPECT_EQ(builder.Finish(), Digest(bytes, sizeof(bytes)));
}

TEST(DigestTest, EveryByteCounts) {
  std::string bytes(300, 'x');
  const uint64_t before = Digest(bytes.data(), 300);
  for (char& byte : bytes) {
    byte = 'y';
    EXPECT_NE(Digest(bytes.data(), 300), before);
    byte = 'x';
  }
  EXPECT_NE(Digest(bytes.data(), 299), before);
}

}  // namespace
}  // namespace cpfeed

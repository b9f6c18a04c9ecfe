#include "core/shard/gather.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "core/shard/source_runs.h"
#include "tests/testing/random_cut.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::RandomlyCut;
using ::testing::ElementsAre;

std::string RandomBytes(int64_t size, std::mt19937_64& random) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

// Property: rows arrive where they belong, whatever their size, the order of
// runs in the source and the cuts; nothing else is written.
TEST(GatherRowsTest, MovesRowsAndNothingElse) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    const int64_t row_bytes = random() % 40;
    const int64_t offset = random() % 50;
    const int64_t source_rows = random() % 30 + 1;
    const std::string source =
        RandomBytes(offset + source_rows * row_bytes, random);
    std::vector<CopyRun> runs;
    int64_t rows = 0;
    for (int i = 0; i < 6; ++i) {
      rows += random() % 3;  // Not covered.
      const int64_t first = random() % source_rows;
      const int64_t length = random() % (source_rows - first) + 1;
      runs.push_back({.row = rows, .source = first, .length = length});
      rows += length;
    }
    std::string expected((rows + 1) * row_bytes, '#');
    for (const CopyRun& run : runs) {
      std::copy_n(source.begin() + offset + run.source * row_bytes,
                  run.length * row_bytes,
                  expected.begin() + run.row * row_bytes);
    }
    std::string out(expected.size(), '#');
    const Buffer whole =
        Buffer::CopyOf(source.data(), static_cast<int64_t>(source.size()));
    GatherRows(RandomlyCut(whole, random() % 100 + 1, random), offset,
               row_bytes, runs, reinterpret_cast<std::byte*>(out.data()));
    ASSERT_EQ(out, expected);
  }
}

TEST(SliceRowsTest, RefersToTheSource) {
  const Buffer source = Buffer::CopyOf("..aabbccdd", 10);
  const std::vector<CopyRun> runs = {{.row = 0, .source = 3, .length = 1},
                                     {.row = 1, .source = 0, .length = 2}};
  const Buffer rows = SliceRows(source, 2, 2, runs);
  ASSERT_EQ(rows.fragments().size(), 2);
  EXPECT_EQ(rows.fragments()[0].data, source.data() + 8);
  EXPECT_EQ(rows.fragments()[1].data, source.data() + 2);
  EXPECT_EQ(rows.size(), 6);
}

TEST(FillTest, ElementsHaveTheirDTypesWidth) {
  int16_t shorts[4] = {7, 7, 7, 7};
  FillElements(DType::kInt16, -100, 3, reinterpret_cast<std::byte*>(shorts));
  EXPECT_THAT(shorts, ElementsAre(-100, -100, -100, 7));
  double doubles[2] = {7, 7};
  FillElements(DType::kFloat64, 0, 1, reinterpret_cast<std::byte*>(doubles));
  EXPECT_THAT(doubles, ElementsAre(0, 7));
  uint8_t flags[3] = {7, 7, 7};
  FillElements(DType::kBool, 1, 2, reinterpret_cast<std::byte*>(flags));
  EXPECT_THAT(flags, ElementsAre(1, 1, 7));
}

TEST(FillTest, CountsInOneComponentOfSeveral) {
  int32_t positions[7] = {0, 0, 0, 0, 0, 0, 0};
  FillCounting(DType::kInt32, 5, 3, 2 * sizeof(int32_t),
               reinterpret_cast<std::byte*>(positions + 1));
  EXPECT_THAT(positions, ElementsAre(0, 5, 0, 6, 0, 7, 0));
}

TEST(ReadElementTest, ReadsAcrossCuts) {
  std::mt19937_64 random(2);
  const std::vector<int64_t> values = {1, -2, INT64_MAX, INT64_MIN};
  const Buffer cut = RandomlyCut(Buffer::FromVector(values), 3, random);
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(ReadElement(cut, i * 8, DType::kInt64), values[i]);
  }
}

TEST(ReadElementTest, SignFollowsTheDType) {
  const Buffer bytes = Buffer::CopyOf("\xff\xff\xff\xff", 4);
  EXPECT_EQ(ReadElement(bytes, 0, DType::kInt8), -1);
  EXPECT_EQ(ReadElement(bytes, 1, DType::kUint8), 255);
  EXPECT_EQ(ReadElement(bytes, 2, DType::kInt16), -1);
  EXPECT_EQ(ReadElement(bytes, 0, DType::kInt32), -1);
}

}  // namespace
}  // namespace cpfeed

#include "core/shard/scatter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "core/shard/source_order.h"
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

// Property: rows arrive at their rank and place, whatever their size, the order
// of copies in the source and the cuts; nothing else is written.
TEST(ScatterRowsTest, MovesRowsAndNothingElse) {
  constexpr int kRanks = 3;
  constexpr int kNowhere = 1;  // This rank has no memory.
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    const int64_t row_bytes = random() % 40;
    const int64_t offset = random() % 50;
    const int64_t source_rows = random() % 30 + 1;
    const std::string source =
        RandomBytes(offset + source_rows * row_bytes, random);
    std::vector<RankCopy> copies;
    std::vector<int64_t> rows(kRanks, 0);
    for (int i = 0; i < 12; ++i) {
      const auto rank = static_cast<int32_t>(random() % kRanks);
      rows[rank] += random() % 3;  // Not covered.
      const auto first = static_cast<int32_t>(random() % source_rows);
      const auto length =
          static_cast<int32_t>(random() % (source_rows - first) + 1);
      copies.push_back({.source = first,
                        .row = static_cast<int32_t>(rows[rank]),
                        .length = length,
                        .rank = rank});
      rows[rank] += length;
    }
    std::vector<std::string> expected;
    for (const int64_t count : rows) {
      expected.emplace_back((count + 1) * row_bytes, '#');
    }
    std::vector<std::string> got = expected;
    for (const RankCopy& copy : copies) {
      if (copy.rank == kNowhere) continue;
      std::copy_n(source.begin() + offset + copy.source * row_bytes,
                  copy.length * row_bytes,
                  expected[copy.rank].begin() + copy.row * row_bytes);
    }
    std::vector<std::byte*> outs;
    for (std::string& out : got) {
      outs.push_back(reinterpret_cast<std::byte*>(out.data()));
    }
    outs[kNowhere] = nullptr;
    const Buffer whole =
        Buffer::CopyOf(source.data(), static_cast<int64_t>(source.size()));
    ScatterRows(RandomlyCut(whole, random() % 100 + 1, random), offset,
                row_bytes, copies, outs);
    ASSERT_EQ(got, expected);
  }
}

// Each size up to the longest that is copied without a call, and beyond.
TEST(ScatterRowsTest, CopiesRunsOfEverySize) {
  std::mt19937_64 random(3);
  const std::string source = RandomBytes(600, random);
  const Buffer buffer = Buffer::CopyOf(source.data(), 600);
  for (int32_t size = 0; size <= 300; ++size) {
    std::string out(302, '#');
    const std::vector<RankCopy> copies = {
        {.source = 7, .row = 1, .length = size, .rank = 0}};
    const std::vector<std::byte*> outs = {
        reinterpret_cast<std::byte*>(out.data())};
    ScatterRows(buffer, 0, 1, copies, outs);
    ASSERT_EQ(out, "#" + source.substr(7, size) + std::string(301 - size, '#'));
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

#include "client/documents/megatron_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "client/documents/megatron_index.h"
#include "core/base/error.h"
#include "tests/client/documents/input_files.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::Bytes;
using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::IsOkAndHolds;
using ::cpfeed::testing::MakeFolder;
using ::cpfeed::testing::MegatronIdx;
using ::cpfeed::testing::ReadAll;
using ::cpfeed::testing::StatusIs;
using ::cpfeed::testing::WriteFile;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Writes both files and opens them.
absl::StatusOr<std::unique_ptr<MegatronStore>> OpenDataset(
    const std::string& idx, const std::string& bin) {
  const std::string folder = MakeFolder();
  WriteFile(folder, "x.bin", bin);
  WriteFile(folder, "x.idx", idx);
  return MegatronStore::Open(folder + "/x");
}

TEST(MegatronStoreTest, ADocumentIsItsSequences) {
  // Documents: sequences 0 and 1 | none | sequence 2.
  const std::string idx = MegatronIdx(8, {2, 1, 3}, {0, 4, 6}, {0, 2, 2, 3});
  const std::string bin = Bytes<uint16_t>({1, 2, 3, 4, 65535, 6});
  for (const std::string& modes : {std::string(), std::string(3, '\0')}) {
    const auto store = OpenDataset(idx + modes, bin);
    ASSERT_THAT(store, IsOk());
    EXPECT_THAT((*store)->Count(), IsOkAndHolds(3));
    EXPECT_THAT(ReadAll(**store),
                IsOkAndHolds(ElementsAre(ElementsAre(1, 2, 3), IsEmpty(),
                                         ElementsAre(4, 65535, 6))));
  }
}

TEST(MegatronStoreTest, PiecesCrossSequences) {
  const auto store = OpenDataset(MegatronIdx(5, {2, 0, 3}, {8, 0, 16}, {0, 3}),
                                 Bytes<int64_t>({99, 10, 11, 12, 13, 14}));
  ASSERT_THAT(store, IsOk());
  const std::vector<int64_t> whole = {10, 11, 11, 12, 13};
  EXPECT_THAT(ReadAll(**store), IsOkAndHolds(ElementsAre(whole)));
  for (int64_t begin = 0; begin <= 5; ++begin) {
    for (int64_t end = begin; end <= 5; ++end) {
      const auto piece = (*store)->Read(0, begin, end);
      ASSERT_THAT(piece, IsOk());
      EXPECT_EQ(piece->input_ids, std::vector<int64_t>(whole.begin() + begin,
                                                       whole.begin() + end));
      EXPECT_EQ(piece->next_token,
                end < 5 ? std::optional<int64_t>(whole[end]) : std::nullopt);
    }
  }
}

TEST(MegatronStoreTest, RefusesNegativeTokens) {
  const auto store =
      OpenDataset(MegatronIdx(4, {2}, {0}, {0, 1}), Bytes<int32_t>({7, -7}));
  ASSERT_THAT(store, IsOk());
  EXPECT_THAT(ReadAll(**store),
              AllOf(HasReason(kInputMalformed),
                    StatusIs(absl::StatusCode::kInvalidArgument,
                             HasSubstr("x.bin document 0 from token 0: token 1 "
                                       "is -7"))));
}

TEST(MegatronStoreTest, NamesTheFileThatIsMissing) {
  const std::string folder = MakeFolder();
  WriteFile(folder, "x.idx", MegatronIdx(4, {}, {}, {0}));
  EXPECT_THAT(MegatronStore::Open(folder + "/x"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/x.bin")));
  EXPECT_THAT(MegatronStore::Open(folder + "/y"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/y.idx")));
}

TEST(MegatronIndexTest, EmptyDatasetIsLegal) {
  const std::string idx = MegatronIdx(4, {}, {}, {0});
  const auto index = MegatronIndex::Parse(idx, 0);
  ASSERT_THAT(index, IsOk());
  EXPECT_EQ(index->num_documents(), 0);
}

// `idx` with byte `at` set to `value`.
std::string With(std::string idx, size_t at, char value) {
  idx[at] = value;
  return idx;
}

struct BadIndex {
  std::string name, contents, message;
};

class MegatronIndexErrorTest : public ::testing::TestWithParam<BadIndex> {};

TEST_P(MegatronIndexErrorTest, SaysWhatIsWrong) {
  EXPECT_THAT(MegatronIndex::Parse(GetParam().contents, 12),
              AllOf(HasReason(kInputMalformed),
                    StatusIs(absl::StatusCode::kInvalidArgument,
                             HasSubstr(GetParam().message))));
}

const std::string& GoodIndex() {
  static const auto* idx =
      new std::string(MegatronIdx(4, {2, 1}, {0, 8}, {0, 1, 2}));
  return *idx;
}

INSTANTIATE_TEST_SUITE_P(
    All, MegatronIndexErrorTest,
    ::testing::ValuesIn(std::vector<BadIndex>{
        {"Empty", "", "does not begin as the index of a Megatron dataset"},
        {"OtherMagic", With(GoodIndex(), 0, 'X'), "does not begin"},
        {"HeaderOnly", GoodIndex().substr(0, 33), "does not begin"},
        {"Version2", With(GoodIndex(), 9, 2), "version 2; must be 1"},
        {"FloatTokens", With(GoodIndex(), 17, 7),
         "code 7; must be that of an "
         "integer"},
        {"CutOff", GoodIndex().substr(0, GoodIndex().size() - 1),
         "index of 2 sequences and 3 entries of documents must have 48 bytes "
         "behind its header, or one more for each sequence; file has 47"},
        {"TooLong", GoodIndex() + "x", "file has 49"},
        {"HugeCount", With(GoodIndex(), 25, '\x7f'), "must have over 2^63"},
        {"HugeCountThatFits", With(GoodIndex(), 25, '\x0a'),
         "must have 8646911284551352368 bytes"},
        {"NoDocumentIndex", MegatronIdx(4, {}, {}, {}), "has 0 entries"},
        {"OutsideBin", MegatronIdx(4, {2, 2}, {0, 8}, {0, 1, 2}),
         "sequence 1 has 2 tokens from byte 8; must lie inside the 12 bytes"},
        {"BehindBin", MegatronIdx(4, {2, 0}, {0, 13}, {0, 1, 2}),
         "sequence 1 has 0 tokens from byte 13"},
        {"NegativeLength", MegatronIdx(4, {-1}, {0}, {0, 1}),
         "sequence 0 has -1 tokens"},
        {"NegativeOffset", MegatronIdx(4, {1}, {-4}, {0, 1}),
         "sequence 0 has 1 tokens from byte -4"},
        {"HugeOffset", MegatronIdx(4, {1}, {INT64_MAX}, {0, 1}),
         "sequence 0 has 1 tokens from byte 9223372036854775807"},
        {"DocumentsBeginLate", MegatronIdx(4, {1}, {0}, {1, 1}),
         "document index [0] is 1; must go from 0 to num_sequences = 1"},
        {"DocumentsEndEarly", MegatronIdx(4, {1}, {0}, {0, 0}),
         "document index [1] is 0"},
        {"DocumentsDecrease", MegatronIdx(4, {1, 1}, {0, 4}, {0, 2, 1, 2}),
         "document index [2] is 1; must go from 0 to num_sequences = 2 and not "
         "decrease (the entry before is 2)"},
    }),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace cpfeed

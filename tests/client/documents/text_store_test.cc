#include "client/documents/text_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/documents/tokenizer.h"
#include "core/base/error.h"
#include "tests/client/documents/input_files.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::IsOkAndHolds;
using ::cpfeed::testing::MakeFolder;
using ::cpfeed::testing::ReadAll;
using ::cpfeed::testing::StatusIs;
using ::cpfeed::testing::WriteFile;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A token for each word: its length. Counts its calls.
class WordLengths : public Tokenizer {
 public:
  absl::StatusOr<std::vector<std::vector<int64_t>>> Encode(
      absl::Span<const std::string> texts) override {
    ++calls;
    std::vector<std::vector<int64_t>> encoded;
    for (const std::string& text : texts) {
      std::vector<int64_t>& ids = encoded.emplace_back();
      int64_t length = 0;
      for (const char c : text + " ") {
        if (c == ' ') ids.push_back(std::exchange(length, 0));
        if (c != ' ') ++length;
      }
    }
    return encoded;
  }
  uint64_t Fingerprint() const override { return 7; }

  int calls = 0;
};

TEST(TextStoreTest, AFileIsADocumentAndAByteAToken) {
  const std::string folder = MakeFolder();
  const auto store =
      TextStore::Open({WriteFile(folder, "b", "hi\xff"),
                       WriteFile(folder, "a", ""), WriteFile(folder, "c", "x")},
                      nullptr);
  ASSERT_THAT(store, IsOk());
  EXPECT_THAT((*store)->Count(), IsOkAndHolds(3));
  EXPECT_THAT(ReadAll(**store),
              IsOkAndHolds(ElementsAre(ElementsAre('h', 'i', 255), IsEmpty(),
                                       ElementsAre('x'))));
  EXPECT_EQ((*store)->Name(2), folder + "/c");
}

TEST(TextStoreTest, PieceKnowsTheTokenBehindIt) {
  const std::string path = WriteFile(MakeFolder(), "a", "0123456789");
  for (const bool with_tokenizer : {false, true}) {
    const auto store = TextStore::Open(
        {path}, with_tokenizer ? std::make_shared<ByteTokenizer>() : nullptr);
    ASSERT_THAT(store, IsOk());
    const auto piece = (*store)->Read(0, 2, 4);
    ASSERT_THAT(piece, IsOk());
    EXPECT_THAT(piece->input_ids, ElementsAre('2', '3'));
    EXPECT_EQ(piece->next_token, '4');
    EXPECT_FALSE((*store)->Read(0, 4, 10)->next_token.has_value());
  }
}

TEST(TextStoreTest, TokenizesWhatIsReadNextTogether) {
  const std::string folder = MakeFolder();
  std::vector<std::string> paths;
  for (int i = 0; i < 6; ++i) {
    paths.push_back(
        WriteFile(folder, std::to_string(i), "a bc" + std::string(i, 'x')));
  }
  auto tokenizer = std::make_shared<WordLengths>();
  const auto store = TextStore::Open(paths, tokenizer);
  ASSERT_THAT(store, IsOk());
  (*store)->WillRead({5, 1, 3});
  for (const int64_t i : {5, 1, 3}) {
    EXPECT_THAT((*store)->Length(i), IsOkAndHolds(2));
    EXPECT_THAT((*store)->Read(i, 0, 2)->input_ids, ElementsAre(1, 2 + i));
  }
  EXPECT_EQ(tokenizer->calls, 1);
  EXPECT_THAT((*store)->Length(0), IsOkAndHolds(2));
  EXPECT_EQ(tokenizer->calls, 2);
}

TEST(TextStoreTest, RefusesWhatIsNoFile) {
  const std::string folder = MakeFolder();
  EXPECT_THAT(TextStore::Open({folder + "/none"}, nullptr),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("cannot open " + folder + "/none")));
  EXPECT_THAT(TextStore::Open({folder}, nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("no regular file")));
}

TEST(TextStoreTest, NoticesThatAFileChanged) {
  const std::string folder = MakeFolder();
  const auto store = TextStore::Open({WriteFile(folder, "a", "1234")}, nullptr);
  ASSERT_THAT(store, IsOk());
  WriteFile(folder, "a", "123");
  EXPECT_THAT((*store)->Read(0, 0, 4),
              AllOf(HasReason(kInputChanged),
                    StatusIs(absl::StatusCode::kFailedPrecondition,
                             HasSubstr("has 3 bytes; must have 4"))));
}

TEST(TextStoreTest, FingerprintIsOfNamesAndSizesNotOfFolders) {
  const std::string folder = MakeFolder();
  const auto fingerprint = [&](const std::string& name,
                               const std::string& text) {
    return (*TextStore::Open({WriteFile(folder, name, text)}, nullptr))
        ->Fingerprint();
  };
  const uint64_t base = fingerprint("x/a", "123");
  EXPECT_EQ(fingerprint("y/a", "456"), base);
  EXPECT_NE(fingerprint("x/b", "123"), base);
  EXPECT_NE(fingerprint("z/a", "1234"), base);
}

}  // namespace
}  // namespace cpfeed
